#!/usr/bin/env python3
"""Takes the loss curve out of a run's report as a picture that stands alone.

tools/report_chart.py RUN_DIR/report.html > docs/images/demo_loss.svg
"""

import pathlib
import re
import signal
import sys

# Colours that read on a light and on a dark page.
STYLE = """
.grid{stroke:#8884;stroke-width:1}.axis{stroke:#888;stroke-width:1}
.tick{fill:#888;font:12px system-ui,sans-serif}
.line{fill:none;stroke:#3b82f6;stroke-width:2;stroke-linejoin:round}
.raw{opacity:.35}.dot{fill:#3b82f6}
"""


def main():
    # Whoever reads the picture may have seen enough.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        page = pathlib.Path(sys.argv[1]).read_text()
    except OSError as error:
        sys.exit(f"{sys.argv[1]}: {error.strerror}")
    chart = re.search(r'<svg class="chart".*?</svg>', page, re.DOTALL)
    if chart is None:
        sys.exit(f"{sys.argv[1]}: no chart in it")
    # The points are for the page's script.
    svg = re.sub(r' data-points="[^"]*"', "", chart[0])
    svg = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    print(svg.replace(">", f"><style>{STYLE}</style>", 1))


if __name__ == "__main__":
    main()
