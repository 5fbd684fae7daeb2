"""The result does not depend on how it was run: same signature and the same bytes of results.h5 for any number of
ranks and threads, for an interrupted and resumed run, and for a run resumed when it was complete."""
import filecmp
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from program import *  # noqa: E402,F403


class Determinism(ProgramTest):
    def sweep(self, name, ranks, threads, *more):
        answer = run_json("sweep", SMALL, "--out", self.dir / name, "--threads", threads, *more, ranks=ranks, timeout=300)
        return answer, self.dir / name / "results.h5"

    def assert_same_file(self, one, other):
        if filecmp.cmp(one, other, shallow=False):
            return
        what = ""
        if shutil.which("h5diff"):
            what = subprocess.run(["h5diff", "-r", one, other], capture_output=True, text=True).stdout[:2000]
        self.fail(f"{one.parent.name} and {other.parent.name} differ\n{what}")

    def test_ranks_and_threads(self):
        for record in ("all", "best"):
            with self.subTest(record=record):
                reference, file = self.sweep(f"1x1-{record}", 0, 1, "--record", record)
                self.assertGreater(reference["units"]["total"], 4, "too few units to say anything")
                self.assertGreater(reference["feasible"], 0)
                for ranks, threads in ((1, 2), (2, 1), (3, 2), (4, 1)):
                    answer, other = self.sweep(f"{ranks}x{threads}-{record}", ranks, threads, "--record", record)
                    self.assertEqual((answer["ranks"], answer["threads"]), (ranks, threads))
                    for key in ("signature", "architectures", "points", "evaluations", "feasible", "refused", "top"):
                        self.assertEqual(answer[key], reference[key], key)
                    self.assert_same_file(file, other)

    def test_cyclic_units(self):
        """Without the shared counter each rank takes every n-th unit: the same bytes."""
        _, file = self.sweep("counter", 2, 1)
        done = run("sweep", SMALL, "--out", self.dir / "cyclic", "--threads", 1, ranks=3, environment={"TESSERA_UNITS": "cyclic"})
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assert_same_file(file, self.dir / "cyclic" / "results.h5")
        done = run("sweep", SMALL, "--out", self.dir / "none", ranks=2, environment={"TESSERA_UNITS": "random"})
        self.assertEqual(done.returncode, BAD_INPUT, done.stderr)
        self.assertIn("TESSERA_UNITS", done.stderr)
        self.assertFalse((self.dir / "none").exists())

    def test_kernels(self):
        """Every kernel that this processor can run gives the same bytes; one it has not is refused, nothing written."""
        kernels = []
        for kernel in ("portable", "avx2", "avx512"):
            done = run("sweep", SMALL, "--out", self.dir / kernel, "--json", environment={"TESSERA_KERNEL": kernel})
            if done.returncode == BAD_INPUT:
                self.assertIn("TESSERA_KERNEL", done.stderr)
                self.assertFalse((self.dir / kernel).exists())
                continue
            self.assertEqual(done.returncode, DONE, done.stderr)
            kernels.append(self.dir / kernel / "results.h5")
        self.assertEqual(kernels[0].parent.name, "portable")
        for other in kernels[1:]:
            self.assert_same_file(kernels[0], other)
        done = run("sweep", SMALL, "--out", self.dir / "none", environment={"TESSERA_KERNEL": "sse9"})
        self.assertEqual(done.returncode, BAD_INPUT)
        self.assertFalse((self.dir / "none").exists())

    def test_signature_moves_with_the_study(self):
        first, _ = self.sweep("first", 0, 1, "--record", "best")
        study = self.write("other.toml", SMALL.read_text().replace("sequence = 2048", "sequence = 4096"))
        other = run_json("sweep", study, "--out", self.dir / "other", "--record", "best")
        self.assertNotEqual(first["signature"], other["signature"])

    def test_interrupted_and_resumed(self):
        _, whole = self.sweep("whole", 0, 1)
        out = self.dir / "interrupted"
        for delay in (0.3, 0.6, 1.2, 2.4):
            process = subprocess.Popen(command("sweep", SMALL, "--out", out, "--threads", 1, "--resume", "--json"),
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
            time.sleep(delay)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=120)
            self.assertIn(process.returncode, (DONE, INTERRUPTED))
            if process.returncode == DONE:
                break
        _, resumed = self.sweep("interrupted", 2, 1, "--resume")
        self.assert_same_file(whole, resumed)

    def test_resuming_a_complete_run_redoes_nothing(self):
        first, _ = self.sweep("complete", 0, 1)
        before = (self.dir / "complete" / "results.h5").read_bytes()
        again, file = self.sweep("complete", 2, 1, "--resume")
        self.assertEqual(again["units"]["reused"], again["units"]["total"])
        self.assertEqual(again["signature"], first["signature"])
        self.assertEqual(file.read_bytes(), before)


if __name__ == "__main__":
    main()
