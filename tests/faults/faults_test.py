"""Faults for real: kills at random times, signals, full disk, folders that cannot be written, a second sweep, damaged
files. Each time: nothing that was finished is lost, no left-over blocks the next run, and the answer is the same."""
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from program import *  # noqa: E402,F403

STUDY = Path(__file__).resolve().parent / "study.toml"
KILLS = int(os.environ.get("TESSERA_KILLS", "50"))  # random kills; the seed below makes a failure repeatable
SEED = int(os.environ.get("TESSERA_SEED", "20240607"))
SHIM = BUILD / "fault_shim.so"  # tests/faults/fault_shim.c; a sanitizer's run-time would have to come before it
SHIMMED = unittest.skipIf(os.environ.get("TESSERA_SANITIZE"), "a preloaded library and a sanitizer exclude each other")


def fault(folder, **settings):
    """Environment in which the calls that touch files of `folder` are counted or fail, see fault_shim.c."""
    return {"LD_PRELOAD": str(SHIM), "TESSERA_FAULT_FOLDER": str(folder), **{"TESSERA_FAULT_" + k.upper(): str(v) for k, v in settings.items()}}


def start(*arguments, ranks=0):
    return subprocess.Popen(command(*arguments, ranks=ranks), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, start_new_session=True)


def kill_group(process, number):
    """Signals the program and, under a launcher, its ranks: what a node that dies looks like."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass
    return process.communicate(timeout=120)


def ranks_of(process):
    """Process ids of the MPI ranks below a launcher."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                group = os.getpgid(int(entry.name))
            except (OSError, ProcessLookupError):
                continue
            if words[0] == TESSERA.encode() and os.getsid(int(entry.name)) == process.pid and group:
                found.append(int(entry.name))
    return found


class Faults(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="tessera-test-")
        cls.addClassCleanup(folder.cleanup)
        began = time.monotonic()
        cls.reference = run_json("sweep", STUDY, "--out", Path(folder.name) / "whole", "--threads", 1, timeout=600)
        cls.seconds = time.monotonic() - began
        cls.bytes = (Path(folder.name) / "whole" / "results.h5").read_bytes()

    def assert_whole(self, out, answer):
        self.assertEqual(answer["signature"], self.reference["signature"])
        self.assertEqual((out / "results.h5").read_bytes(), self.bytes)

    def resume(self, out, ranks=0):
        answer = run_json("sweep", STUDY, "--out", out, "--resume", "--threads", 1, ranks=ranks, timeout=600)
        self.assert_whole(out, answer)
        return answer

    def test_random_kills_lose_nothing(self):
        random_times = random.Random(SEED)
        kills = completions = reused_units = 0
        round_number = 0
        out = self.dir / "out0"
        least_reused = 0
        while kills < KILLS:
            ranks = random_times.choice([0, 0, 2])
            process = start("sweep", STUDY, "--out", out, "--resume", "--threads", 1, ranks=ranks)
            time.sleep(random_times.uniform(0.02, self.seconds * 0.8))
            if process.poll() is None:
                victims = ranks_of(process) if ranks and random_times.random() < 0.5 else []
                if victims:
                    # One rank alone; the launcher ends the others.
                    try:
                        os.kill(random_times.choice(victims), signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                    try:
                        process.communicate(timeout=60)
                    except subprocess.TimeoutExpired:
                        kill_group(process, signal.SIGKILL)
                        self.fail("a dead rank left the others waiting for a minute")
                else:
                    kill_group(process, signal.SIGKILL)
                for left in ranks_of(process):
                    os.kill(left, signal.SIGKILL)
                kills += 1
            else:
                process.communicate()
            if random_times.random() < 0.25 or (out / "results.h5").exists():
                answer = self.resume(out)
                completions += 1
                self.assertGreaterEqual(answer["units"]["reused"], least_reused, "a finished unit was lost")
                reused_units += answer["units"]["reused"]
                round_number += 1
                out = self.dir / f"out{round_number}"
                least_reused = 0
        self.resume(out)
        print(f"\n  {kills} kills, {completions + 1} completions, {reused_units} units kept, 0 lost", flush=True)

    def test_signals_finish_the_units_in_hand_and_exit_75(self):
        for number, ranks in ((signal.SIGTERM, 0), (signal.SIGUSR1, 0), (signal.SIGINT, 0)):
            with self.subTest(signal=number.name):
                out = self.dir / number.name
                process = start("sweep", STUDY, "--out", out, "--threads", 1, "--json", ranks=ranks)
                time.sleep(self.seconds * 0.4)
                process.send_signal(number)
                stdout, stderr = process.communicate(timeout=60)
                if process.returncode == DONE:
                    continue  # the machine was faster than the signal
                self.assertEqual(process.returncode, INTERRUPTED, stderr)
                self.assertFalse((out / "results.h5").exists(), "a partial result looks whole")
                if stdout:
                    one_object(stdout)
                answer = self.resume(out)
                self.assertGreater(answer["units"]["reused"], 0, "the interrupted run kept nothing")

    def test_time_limit_is_resumable(self):
        out = self.dir / "out"
        done = run("sweep", STUDY, "--out", out, "--threads", 1, "--time-limit", "0.5")
        self.assertIn(done.returncode, (DONE, INTERRUPTED), done.stderr)
        self.resume(out)

    def test_full_disk(self):
        mount = self.dir / "small-disk"
        mount.mkdir()
        try:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", mount], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("cannot mount a small tmpfs here (needs root)")
        try:
            out = mount / "out"
            done = run("sweep", STUDY, "--out", out, "--threads", 1)
            # Refused before it starts where the estimate sees it coming, failed with the reason where not.
            self.assertIn(done.returncode, (FAILED, BAD_INPUT), done.stderr)
            self.assertRegex(done.stderr, r"(?i)no space|disk|bytes")
            self.assertFalse((out / "results.h5").exists())
            subprocess.run(["mount", "-o", "remount,size=256m", mount], check=True, capture_output=True)
            self.resume(out)
            # Filled by somebody else while the sweep runs.
            late = mount / "late"
            process = start("sweep", STUDY, "--out", late, "--threads", 1)
            time.sleep(self.seconds * 0.3)
            subprocess.run(["dd", "if=/dev/zero", f"of={mount}/filler", "bs=1M"], capture_output=True)
            _, stderr = process.communicate(timeout=120)
            if process.returncode != DONE:
                self.assertEqual(process.returncode, FAILED, stderr)
                self.assertRegex(stderr, r"(?i)disk is full")
            (mount / "filler").unlink()
            self.resume(late)
        finally:
            subprocess.run(["umount", mount], capture_output=True)

    def test_read_only_folder(self):
        mount = self.dir / "read-only"
        mount.mkdir()
        try:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", mount], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("cannot mount a read-only tmpfs here (needs root)")
        try:
            done = run("sweep", TINY, "--out", mount / "out")
            self.assertEqual(done.returncode, BAD_INPUT, done.stderr)
            self.assertIn(str(mount), done.stderr)
        finally:
            subprocess.run(["umount", mount], capture_output=True)

    def test_second_sweep_in_the_same_folder_is_refused(self):
        out = self.dir / "out"
        first = start("sweep", STUDY, "--out", out, "--threads", 1)
        time.sleep(self.seconds * 0.3)
        second = run("sweep", STUDY, "--out", out, "--resume")
        still_running = first.poll() is None
        kill_group(first, signal.SIGKILL)
        if still_running:
            self.assertEqual(second.returncode, BAD_INPUT, second.stderr)
            self.assertRegex(second.stderr, r"(?i)another|lock|in use")
        # The lock died with its holder.
        self.resume(out)

    def test_torn_ledger_and_damaged_segments_are_redone_and_reported(self):
        random_bytes = random.Random(SEED)
        out = self.dir / "out"
        process = start("sweep", STUDY, "--out", out, "--threads", 1)
        time.sleep(self.seconds * 0.6)
        kill_group(process, signal.SIGTERM)
        if process.returncode == DONE:
            self.skipTest("the sweep was done before it could be interrupted")
        whole = [f for f in sorted(out.rglob("*")) if f.is_file() and f.stat().st_size]
        segments = [f for f in whole if f.parent.name == "segments"]
        ledgers = [f for f in whole if f.parent.name == "ledger"]
        self.assertTrue(segments and ledgers, [str(f) for f in whole])
        victim = segments[len(segments) // 2]
        data = bytearray(victim.read_bytes())
        data[random_bytes.randrange(len(data))] ^= 0x40
        victim.write_bytes(data)
        segments[0].write_bytes(segments[0].read_bytes()[:-7])
        with open(ledgers[0], "ab") as ledger:
            ledger.write(b"42 torn li")
        done = run("sweep", STUDY, "--out", out, "--resume", "--threads", 1, timeout=600)
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assertRegex(done.stderr, r"(?i)damaged|corrupt|torn|truncated|checksum|redone|again")
        self.assertEqual((out / "results.h5").read_bytes(), self.bytes)

    @SHIMMED
    def test_kill_at_every_write_point_loses_nothing(self):
        """Each call that writes, syncs, renames or removes, one after another, is the last one of the process."""
        kills = 0
        for study, ranks, rank in ((TINY, 0, None), (SMALL, 2, 0), (SMALL, 2, 1)):
            which = {} if rank is None else {"rank": rank}
            out, counted = self.dir / f"whole-{ranks}-{rank}", self.dir / f"count-{ranks}-{rank}"
            whole = run_json("sweep", study, "--out", out, "--threads", 1, ranks=ranks, environment=fault(out, count=counted, **which))
            expected = (out / "results.h5").read_bytes()
            calls = sum(int(line) for line in counted.read_text().split())
            self.assertGreater(calls, 5)
            # Under a launcher a run takes long: some of the calls there, among them the first, instead of all.
            for k in range(1, calls + 1, 1 if rank is None else max(1, calls // 12)):
                with self.subTest(ranks=ranks, rank=rank, call=k):
                    out = self.dir / f"out-{ranks}-{rank}-{k}"
                    done = run("sweep", study, "--out", out, "--threads", 1, ranks=ranks, environment=fault(out, kill=k, **which))
                    if rank is None:
                        self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
                    elif done.returncode == DONE:
                        continue  # this time the other rank had more of the units
                    kills += 1
                    answer = run_json("sweep", study, "--out", out, "--resume", "--threads", 1)
                    self.assertEqual(answer["signature"], whole["signature"])
                    self.assertEqual((out / "results.h5").read_bytes(), expected)
                    self.assertEqual([f.name for f in out.rglob("*.tmp")], [])
        self.assertGreater(kills, 50)
        print(f"\n  {kills} kills at write points, 0 units lost", flush=True)

    @SHIMMED
    def test_one_rank_without_write_access(self):
        out = self.dir / "out"
        for rank in (0, 1):
            with self.subTest(rank=rank):
                done = run("sweep", STUDY, "--out", out, "--redo", "--threads", 1, ranks=2, environment=fault(out, deny=1, rank=rank))
                self.assertIn(done.returncode, (FAILED, BAD_INPUT), done.stderr)
                self.assertIn(str(out), done.stderr)
                self.assertRegex(done.stderr, r"(?i)permission|writ")
                self.assertFalse((out / "results.h5").exists())
        self.resume(out)

    @SHIMMED
    def test_clock_that_goes_backwards(self):
        out = self.dir / "out"
        self.assert_whole(out, run_json("sweep", STUDY, "--out", out, "--threads", 1, environment=fault(out, clock=1)))
        out = self.dir / "resumed"
        process = start("sweep", STUDY, "--out", out, "--threads", 1)
        time.sleep(self.seconds * 0.4)
        kill_group(process, signal.SIGTERM)
        self.assert_whole(out, run_json("sweep", STUDY, "--out", out, "--resume", "--threads", 1, environment=fault(out, clock=1)))

    def test_a_manifest_that_was_never_renamed_is_no_result(self):
        out = self.dir / "out"
        out.mkdir()
        (out / "manifest.json.tmp").write_text("{")
        self.assert_whole(out, run_json("sweep", STUDY, "--out", out, "--threads", 1))
        self.assertFalse((out / "manifest.json.tmp").exists())


if __name__ == "__main__":
    main()
