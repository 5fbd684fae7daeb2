"""Runs every command block of README.md and docs/*.md, so that no page shows a command that does not work.

A block is fenced as ```sh (run) or ```console (not run: installs, cluster jobs, other machines). All ```sh blocks
of a page run in order in one folder that holds `build/tessera` and `jobs/` as the checkout does. A block that
follows the comment <!-- exit: N --> has to end with that code. ```python blocks are run with h5py after the page's
blocks before them."""
import re
import shutil
import sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from program import *  # noqa: E402,F403

FENCE = re.compile(r"(?:<!-- exit: (\d+) -->\s*\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    return [(int(code or 0), kind, text) for code, kind, text in FENCE.findall(page.read_text()) if kind in ("sh", "python")]


class Docs(ProgramTest):
    def run_page(self, page):
        (self.dir / "build").mkdir()
        (self.dir / "build" / "tessera").symlink_to(TESSERA)
        for folder in ("jobs", "docs", "tests"):
            (self.dir / folder).symlink_to(SOURCE / folder)
        shell = {**ENVIRONMENT, "PATH": f"{self.dir / 'bin'}:{ENVIRONMENT['PATH']}"}
        (self.dir / "bin").mkdir()
        (self.dir / "bin" / "tessera").symlink_to(TESSERA)
        if shutil.which(MPIEXEC) and MPIEXEC != "mpiexec":
            # A link would not do: MPICH's launcher looks for its helpers beside its own name.
            launcher = self.dir / "bin" / "mpiexec"
            launcher.write_text(f'#!/bin/sh\nexec "{shutil.which(MPIEXEC)}" "$@"\n')
            launcher.chmod(0o755)
        (self.dir / "bin" / "python3").symlink_to(sys.executable)
        for code, kind, text in blocks(page):
            program = ["bash", "-euo", "pipefail", "-c", text] if kind == "sh" else [sys.executable, "-c", text]
            done = subprocess.run(program, cwd=self.dir, env=shell, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=600)
            self.assertEqual(done.returncode, code, f"{page.name}:\n{text}\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}")

    def test_links_lead_somewhere(self):
        for page in [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted((SOURCE / "docs").glob("*.md"))]:
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
                if not target.startswith(("http://", "https://", "mailto:")):
                    self.assertTrue((page.parent / target).exists(), f"{page.name} links to {target}")


def add_page(page):
    def test(self):
        if any(kind == "python" for _, kind, _ in blocks(page)):
            try:
                import h5py  # noqa: F401
            except ImportError:
                self.skipTest("python3-h5py is missing")
        self.run_page(page)
    setattr(Docs, "test_page_" + page.stem.lower().replace("-", "_"), test)


for found in [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted((SOURCE / "docs").glob("*.md"))]:
    if found.exists() and blocks(found):
        add_page(found)

if __name__ == "__main__":
    main()
