"""`harness models convert`: a network as a TFLite file or in standard operators, compared layer by layer."""
