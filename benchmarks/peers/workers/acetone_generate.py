"""Generate C from an NNET file with ACETONE, and print the version that did as the last line.

usage: acetone_generate.py NNET-FILE FOLDER
"""  # noqa: INP001 - a script

from __future__ import annotations

import sys
from importlib.metadata import version

from acetone_nnet.cli.generate import cli_acetone

cli_acetone(model_file=sys.argv[1], function_name="inference", nb_tests=1, output_dir=sys.argv[2])
sys.stdout.write(f"\n{version('acetone-nnet')}\n")
