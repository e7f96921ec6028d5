"""The read model: the file that holds the tables, and the thread that folds the topics into it."""
