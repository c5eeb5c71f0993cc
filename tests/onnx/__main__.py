"""``python -m tests.onnx nodes|operators``: all of the standard's, or of PyTorch's."""

import sys

from tests.onnx import nodes, sweep

{"nodes": nodes, "operators": sweep}[sys.argv[1]].main()
