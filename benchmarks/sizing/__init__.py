"""The spreadsheet behind `tidegate topology size`: measured figures, and the arithmetic on them."""
