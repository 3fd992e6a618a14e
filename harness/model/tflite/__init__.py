"""TFLite files: their tensors and operators as values, written and read with the schema's generated classes.

The package ai-edge-litert, of the extra `litert`, has these classes.  TensorFlow is not needed.
"""
