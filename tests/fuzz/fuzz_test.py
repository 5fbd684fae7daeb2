"""Damaged study files, presets, tables, configurations and results: the program ends with a clear message, never by a
signal, never hanging. TESSERA_FUZZ_SECONDS (default 60) is the time, TESSERA_FUZZ_SEED the first seed. An input that
breaks the program is kept in the build folder under fuzz-findings/."""
import os
import random
import resource
import sys
import time
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from mutate import mutate_bytes, mutate_text  # noqa: E402
from program import *  # noqa: E402,F403

SECONDS = float(os.environ.get("TESSERA_FUZZ_SECONDS", "60"))
FIRST_SEED = int(os.environ.get("TESSERA_FUZZ_SEED", "1"))
INPUTS = Path(__file__).resolve().parent / "inputs"
HANG = 30  # seconds for one run of any input
MEMORY = 6 << 30  # address space of one run [B]; a mutated number must not ask for more


def limit_memory():
    if not os.environ.get("TESSERA_SANITIZE"):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


# kind -> (file of tests/fuzz/inputs or None, mutation, command lines with FILE and DIR)
KINDS = {
    "study": (TINY, mutate_text, [["estimate", "FILE", "--json"],
                                  ["sweep", "FILE", "--out", "DIR", "--record", "best", "--time-limit", "5", "--json"]]),
    "cluster": (INPUTS / "cluster.toml", mutate_text,
                [["plan", "-a", "mixtral_8x7b", "-c", "FILE", "--nodes", "2", "--batch", "64", "--seq", "2048", "--json"]]),
    "config": (INPUTS / "config.json", mutate_text, [["count", "-a", "FILE", "--json"]]),
    "runs": (INPUTS / "runs.csv", mutate_text, [["validate", "FILE", "--json"]]),
    "losses": (INPUTS / "losses.csv", mutate_text, [["fit", "FILE", "--form", "chinchilla", "--json"]]),
    "results": (None, mutate_bytes, [["report", "FILE", "-o", "DIR/report.html"], ["table", "FILE", "--nodes", "4", "--days", "20", "--json"],
                                     ["query", "FILE", "--where", "split == 4", "--top", "3", "--json"], ["replay", "FILE", "17", "--json"],
                                     ["export", "FILE", "--format", "megatron-lm"]]),
    "table": (None, mutate_bytes, [["lookup", "FILE", "--nodes", "4", "--days", "15", "--json"],
                                   ["lookup", "FILE", "--nodes", "4", "--days", "15", "--fast", "--json"]]),
    "arguments": (INPUTS / "arguments.sh", mutate_text, [["explain", "--megatron", "FILE", "-c", "p6-b200", "--nodes", "2", "--json"],
                                                         ["plan", "--megatron", "FILE", "-c", "p6-b200", "--nodes", "2", "--json"]]),
    "collectives": (INPUTS / "all_gather_perf.txt", mutate_text, [["calibrate", "--link", "nvlink5", "--nccl-tests", "FILE", "--json"]]),
}


class Fuzz(ProgramTest):
    def seed_bytes(self, kind, path):
        if path is not None:
            return path.read_bytes()
        run_json("sweep", TINY, "--out", self.dir / "seed", "--record", "all")
        if kind == "results":
            return (self.dir / "seed" / "results.h5").read_bytes()
        table = self.dir / "seed" / "table.h5"
        run_json("table", self.dir / "seed" / "results.h5", "--nodes", "4", "--days", "10,20", "-o", table)
        return table.read_bytes()

    def judge(self, kind, seed, file, arguments):
        words = [w.replace("FILE", str(file)).replace("DIR", str(self.dir / "out")) for w in arguments]
        try:
            done = run(*words, timeout=HANG, preexec_fn=limit_memory)
            problem = None
            if done.returncode not in (DONE, FAILED, BAD_INPUT, NOTHING_FEASIBLE, INTERRUPTED):
                problem = f"exit code {done.returncode}"
            elif done.returncode in (FAILED, BAD_INPUT) and "tessera: " not in done.stderr:
                problem = "failed without a message"
            elif "--json" in words and done.returncode == DONE:
                one_object(done.stdout)
        except subprocess.TimeoutExpired:
            problem = f"no end in {HANG} s"
        except ValueError as error:
            problem = f"stdout: {error}"
        subprocess.run(["rm", "-rf", self.dir / "out"], check=True)
        if problem:
            keep = BUILD / "fuzz-findings"
            keep.mkdir(exist_ok=True)
            kept = keep / f"{kind}-{seed}{file.suffix}"
            kept.write_bytes(file.read_bytes())
            return f"{kind} seed {seed}: {problem}: tessera {' '.join(words)} (input kept as {kept})"
        return None


def add_kind(kind, path, mutation, commands):
    def test(self):
        original = self.seed_bytes(kind, path)
        suffix = path.suffix if path else ".h5"
        # The undamaged input has to work, or the damaged ones say nothing.
        file = self.write("input" + suffix, original)
        for arguments in commands:
            words = [w.replace("FILE", str(file)).replace("DIR", str(self.dir / "out")) for w in arguments]
            (self.dir / "out").mkdir(exist_ok=True)
            if "sweep" not in words:
                done = run(*words, timeout=HANG)
                if "no chart library" in done.stderr:
                    raise unittest.SkipTest("this build has no chart library (jobs/install-chart-library.sh)")
                self.assertEqual(done.returncode, DONE, f"{words}\n{done.stderr[-800:]}")
            subprocess.run(["rm", "-rf", self.dir / "out"], check=True)
        until = time.monotonic() + SECONDS / len(KINDS)
        seed, findings = FIRST_SEED, []
        while time.monotonic() < until:
            file.write_bytes(mutation(original, random.Random(f"{kind} {seed}")))
            findings.append(self.judge(kind, seed, file, commands[seed % len(commands)]))
            seed += 1
        print(f"\n  {kind}: {seed - FIRST_SEED} inputs", flush=True)
        self.assertEqual([f for f in findings if f], [])
    setattr(Fuzz, "test_" + kind, test)


for name, values in KINDS.items():
    add_kind(name, *values)

if __name__ == "__main__":
    main()
