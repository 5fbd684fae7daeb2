"""Study files that cannot be right: exit 2, PROBLEM (WHY) WHAT TO DO with file and key, nothing written."""
import re
import sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from program import *  # noqa: E402,F403

STUDY = TINY.read_text()


def changed(key, value, section=None):
    """The study with `key = value`; `key` must stand in the file."""
    text, times = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", STUDY)
    assert times == 1, key
    return text


def added(section, line):
    return STUDY.replace(f"[{section}]\n", f"[{section}]\n{line}\n")


# name -> (study text, word that the message must contain)
STUDIES = {
    "unknown key": (added("plan", "tq = [1]"), "tq"),
    "unknown section": (STUDY + "\n[nonsense]\nx = 1\n", "nonsense"),
    "misspelled section": (STUDY.replace("[window]", "[windw]"), "windw"),
    "text for a number": (changed("sequence", '"long"'), "sequence"),
    "number for text": (changed("preset", "7"), "preset"),
    "text in a list of numbers": (changed("q", '[6, "eight"]'), "q"),
    "fraction for an integer": (changed("top_k", "[1.5]"), "top_k"),
    "negative nodes": (changed("nodes", "[-4]"), "nodes"),
    "no nodes": (changed("nodes", "[0]"), "nodes"),
    "empty list of nodes": (changed("nodes", "[]"), "nodes"),
    "negative days": (changed("days", "[-1]"), "days"),
    "zero days": (changed("days", "[0]"), "days"),
    "NaN days": (changed("days", "[nan]"), "days"),
    "infinite days": (changed("days", "[inf]"), "days"),
    "zero batch": (changed("global", "[0]"), "global"),
    "negative batch": (changed("global", "[-256]"), "global"),
    "zero sequence": (changed("sequence", "0"), "sequence"),
    "huge sequence": (changed("sequence", "9000000000000000000"), "sequence"),
    "integer overflow": (changed("sequence", "99999999999999999999999"), ""),
    "zero rung": (changed("q", "[0]"), "q"),
    "negative rung": (changed("q", "[-6]"), "q"),
    "negative experts": (changed("experts", "[-8]"), "experts"),
    "top-k above the experts": (changed("top_k", "[64]"), "top_k"),
    "zero top-k": (changed("top_k", "[0]"), "top_k"),
    "zero split": (changed("split", "[0]"), "split"),
    "negative split": (changed("split", "[-2]"), "split"),
    "negative vocabulary": (changed("vocabulary", "-5"), "vocabulary"),
    "unknown family": (changed("family", '"lader"'), "lader"),
    "unknown cluster": (changed("preset", '"p6-b2000"'), "p6-b2000"),
    "unknown law": (changed("name", '"mosaick"'), "mosaick"),
    "unknown recomputation": (changed("recompute", '["sometimes"]'), "sometimes"),
    "unknown schedule": (changed("schedule", '["2f2b"]'), "2f2b"),
    "unknown precision": (changed("precision", '["bf17"]'), "bf17"),
    "zero tensor parallelism": (changed("tp", "[0]"), "tp"),
    "negative pipeline": (changed("pp", "[-1]"), "pp"),
    "word for an axis": (changed("ep", '"some"'), "ep"),
    "ZeRO 4": (changed("zero", "[4]"), "zero"),
    "zero micro-batch": (changed("micro_batch", "[0]"), "micro_batch"),
    "memory cap in words": (added("cluster", 'memory_cap = "plenty"'), "memory_cap"),
    "negative memory cap": (added("cluster", 'memory_cap = "-5 GiB"'), "memory_cap"),
    "negative spare nodes": (added("cluster", "spare_nodes = -2"), "spare_nodes"),
    "stops as long as the window": (added("window", "stopped_days = 20"), "stopped_days"),
    "serving memory in words": (STUDY + '\n[serving]\nmax_memory = "plenty"\n', "max_memory"),
    "caches without a context": (STUDY + "\n[serving]\nbatch = 8\n", "batch"),
    "unknown format of weights": (STUDY + '\n[serving]\nweights = "fp7"\n', "fp7"),
    "goodput above 1": (added("window", "goodput = 1.5"), "goodput"),
    "goodput zero": (added("window", "goodput = 0.0"), "goodput"),
    "sparsity above 1": (added("architecture", "min_sparsity = 1.5"), "min_sparsity"),
    "token bounds the wrong way": (added("law", "tokens_per_active_parameter = [150, 40]"), "tokens_per_active_parameter"),
    "zero rows of the top": (changed("top", "0"), "top"),
    "a key twice": (changed("q", "[6]\nq = [8]"), "q"),
    "a quote left open": (changed("title", '"tiny'), ""),
    "empty file": ("", ""),
    "only a comment": ("# nothing\n", ""),
    "binary file": (bytes(range(256)) * 8, ""),
    "not UTF-8": (STUDY.replace("tiny", "t\xefny").encode("latin-1"), ""),
    "JSON": ('{"cluster": {"preset": "p6-b200"}}', ""),
}


class BadStudies(ProgramTest):
    def refused(self, done, words):
        self.assertEqual(done.returncode, BAD_INPUT, f"stdout: {done.stdout[:300]} stderr: {done.stderr[:600]}")
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"(?s)tessera: .+ \(.+\) .+", "not PROBLEM (WHY) WHAT TO DO")
        for word in words:
            self.assertIn(word, done.stderr)

    def test_sweep_refuses_and_writes_nothing(self):
        for name, (text, word) in STUDIES.items():
            study = self.write("bad.toml", text)
            with self.subTest(study=name):
                self.refused(run("sweep", study, "--out", self.dir / "out", "--json"), ["bad.toml", word])
                self.assertFalse((self.dir / "out").exists(), "wrote something")

    def test_estimate_refuses(self):
        for name, (text, word) in STUDIES.items():
            study = self.write("bad.toml", text)
            with self.subTest(study=name):
                self.refused(run("estimate", study, "--json"), ["bad.toml", word])

    def test_message_names_the_line_of_a_syntax_error(self):
        study = self.write("bad.toml", STUDY.replace("days = [20]", "days = [20"))
        line = STUDY.splitlines().index("days = [20]") + 1
        done = run("sweep", study, "--out", self.dir / "out")
        self.assertEqual(done.returncode, BAD_INPUT)
        numbers = [int(n) for n in re.findall(r"\b(\d+)\b", done.stderr)]
        self.assertTrue({line, line + 1} & set(numbers), done.stderr)

    def test_every_rank_fails_and_one_speaks(self):
        study = self.write("bad.toml", changed("nodes", "[0]"))
        done = run("sweep", study, "--out", self.dir / "out", ranks=2)
        self.assertEqual(done.returncode, BAD_INPUT, done.stderr)
        self.assertEqual(done.stderr.count("tessera: "), 1, done.stderr)

    def test_missing_study_and_folder_as_study(self):
        self.refused(run("sweep", self.dir / "absent.toml", "--out", self.dir / "out"), ["absent.toml"])
        self.refused(run("sweep", self.dir, "--out", self.dir / "out"), [self.dir.name])

    def test_output_folder_that_cannot_be(self):
        file = self.write("file", "in the way")
        for out in (file, file / "below", Path("/proc/tessera/out")):
            with self.subTest(out=out):
                self.refused(run("sweep", TINY, "--out", out), [str(out)])
        self.assertEqual(file.read_text(), "in the way")

    def test_output_file_that_cannot_be(self):
        """Refused before the work; a disk that is full afterwards leaves the old file as it was."""
        results = self.dir / "results"
        run_json("sweep", TINY, "--out", results)
        inputs = SOURCE / "tests" / "fuzz" / "inputs"
        commands = (["report", results / "results.h5"], ["export", results / "results.h5", "--format", "megatron-lm"],
                    ["fit", inputs / "losses.csv", "--form", "chinchilla"], ["validate", inputs / "runs.csv"])
        for arguments in commands:
            if arguments[0] == "report" and "no chart library" in run(*arguments, "--out", self.dir / "page").stderr:
                continue  # jobs/install-chart-library.sh was not run before the build
            for out in (self.dir, self.dir / "absent" / "file", "/dev/full"):
                with self.subTest(command=arguments[0], out=out):
                    self.refused(run(*arguments, "--out", out), [str(out)])
            old = self.write("old", "old")
            link = self.dir / "link"
            if not link.exists():
                link.symlink_to(old)
            with self.subTest(command=arguments[0], out="link"):
                self.assertEqual(run(*arguments, "--out", link).returncode, DONE)
                self.assertTrue(link.is_symlink())
                self.assertNotEqual(old.read_text(errors="replace"), "old")
        self.assertEqual([f for f in self.dir.rglob("*.tmp")], [])

    def test_a_repeated_value_is_no_second_plan(self):
        once = run_json("estimate", self.write("once.toml", changed("tp", "[1, 2]")))
        twice = run_json("estimate", self.write("twice.toml", changed("tp", "[1, 2, 2]")))
        self.assertEqual(twice["points"], once["points"])


class BlankValues(ProgramTest):
    """An empty text mostly comes from a variable that is not set: it must not pass as "not given"."""

    def test_every_option_of_every_command(self):
        for command in listed_commands():
            lines = run(command, "--help").stdout.splitlines()
            found = [m for m in (re.match(r"  (?:-[a-zA-Z],)?(--[a-z-]+) (?:TEXT|INT|UINT|FLOAT)", line) for line in lines) if m]
            for option in (m.group(1) for m in found):
                for blank in ("", "  "):
                    with self.subTest(command=command, option=option, blank=blank):
                        done = run(command, option, blank)
                        self.assertEqual(done.returncode, BAD_INPUT, done.stdout + done.stderr)
                        self.assertEqual(done.stdout, "")
                        self.assertIn(f"{option}: the value is empty", done.stderr)

    def test_arguments(self):
        self.assertIn("the value is empty", run("sweep", "", "--out", self.dir / "out").stderr)
        self.assertIn("the value is empty", run("report", "").stderr)


if __name__ == "__main__":
    main()
