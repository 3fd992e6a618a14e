"""`harness export`: the code of a network as a library for an application, with the object that was proved."""
