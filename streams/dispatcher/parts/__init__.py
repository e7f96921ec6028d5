"""The parts of the dispatcher, one module each; `stage.PARTS` lists them in order."""
