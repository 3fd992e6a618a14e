"""Plan to program to bundle: the generated code, its compilation, and the folder that is deployed."""
