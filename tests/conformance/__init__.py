"""ONNX's own node tests through the host, each on the plug-in: `make conformance`."""
