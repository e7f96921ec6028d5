"""`tidegate new`: a folder with an application to begin from."""
