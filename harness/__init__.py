"""Take a quantised ONNX network to an embedded board and show that what runs there is the network."""

__version__ = "0.1.0"
