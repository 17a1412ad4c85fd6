"""Campaigns that measure elsewhere: over SSH (a real sshd where there is one, else a stand-in that runs the command here), and
on a real Slurm of one node, whose daemons, engine and node are killed on the way.

  cluster_test.py RIDGE CLASS
"""
import collections
import getpass
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import one_node_slurm

RIDGE = pathlib.Path(sys.argv.pop(1)).resolve()
SHAPES = ["m=32", "n=32", "k=32"]
TRIES = ["--max-iterations", "1", "--seed", "3", "--planned", "2", "--wait-for-quiet", "1s", "--no-git", "--yes"]
# A proposer of one sweep that is enough for two machines. What the search proposes hangs on what was measured.
TILES = """
import json, sys
request = json.load(sys.stdin)
print(json.dumps({
    "version": request["version"],
    "hypothesis": {"title": "register tiles", "mechanism": "a tile of C stays in registers", "risks": ["it may be slower"], "verification_signal": "a suite ratio above 1.01",
                   "bottleneck": "compute", "category": "tile", "expected_gain": 0.1, "reasoning": "each loaded vector of B is used MR times"},
    "changes": [{"defines": {"MR": rows, "NV": vectors}} for rows in (2, 4, 6) for vectors in (1, 2)]}))
"""
FAR = 'exec unshare --uts sh -c \'hostname far; exec sh -c "$0"\' "$*"'  # as a machine of another name


class Base(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ridge cluster's "))  # a name that has to be quoted
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.environment = dict(os.environ, RIDGE_CACHE_DIR=str(self.folder / "cache"), RIDGE_STATE_DIR=str(self.folder / "state"),
                                XDG_CONFIG_HOME=str(self.folder / "config"), HOME=str(self.folder))

    def start(self, *words):
        with open(self.folder / "engine.txt", "a+") as log:
            engine = subprocess.Popen([RIDGE, *map(str, words)], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(engine.wait)
        self.addCleanup(engine.kill)
        return engine

    def run_ridge(self, *words, code=0, limit=400):
        ended = subprocess.run([RIDGE, *map(str, words)], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               timeout=limit)
        self.assertEqual(ended.returncode, code, f"{words}\n{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}")
        return ended.stdout + ended.stderr

    def optimize(self, name, *words, budget="2m"):
        return ("optimize", "gemm", *SHAPES, *TRIES, "--budget", budget, "--directory", name, *words)

    def events(self, name):
        return [json.loads(line) for line in (self.folder / name / "journal.jsonl").read_text().splitlines()]

    def effects(self, name):
        """The story of a campaign: what happened in its order, without what every process writes that goes on with it, and what noise alone brings
        about: another calibration, and a sweep of which nothing is worth measuring, or that a busy machine cuts short."""
        ended = {"committed": "closed", "rolled_back": "closed"}
        kinds = [event["kind"] for event in self.events(name)]
        return [ended.get(kind, kind) for kind in kinds if kind not in ("intent", "resumed", "paused", "calibrated", "screened", "evaluated")]

    def check_record(self, name, undisturbed):
        """Nothing lost, nothing twice, and the record holds."""
        self.assertEqual(self.effects(name), undisturbed)
        self.check_once(name)

    def check_once(self, name, rounds=1):
        """Each step of a campaign of so many rounds once, no session twice, and the record holds."""
        effects = self.effects(name)
        for kind in ("prepared", "tips_read", "baseline", "final", "reported"):
            self.assertEqual(effects.count(kind), 1, effects)
        for kind in ("proposed", "decided"):
            self.assertEqual(effects.count(kind), rounds, effects)
        self.assertEqual(effects.count("closed"), 1 + rounds, "the baseline and the rounds")
        sessions = collections.Counter(re.findall(r'"seed":("?[0-9a-fx]+"?)', (self.folder / name / "journal.jsonl").read_text()))
        self.assertFalse([seed for seed, times in sessions.items() if times > 1], "a session counts twice")
        self.run_ridge("campaign", "verify", name)
        self.run_ridge("campaign", "replay", name)

    def shapes(self, *sizes):
        file = self.folder / "shapes.txt"
        file.write_text("".join(f"m={size} n=64 k=64 dtype=f32\n" for size in sizes))
        return file

    def check_table(self, choices, sizes):
        """Every size has its line in the table of this machine, and dispatch goes by it."""
        bucket = lambda line: next(p["value"] for p in line["bucket"]["params"] if p["name"] == "m")
        self.assertEqual(sorted(map(bucket, choices), key=int), list(map(str, sizes)))
        table, = (self.folder / "cache/tuned").glob("*.jsonl")
        lines = {bucket(line): line for line in map(json.loads, table.read_text().splitlines())}
        self.assertEqual(sorted(lines, key=int), list(map(str, sizes)))
        # The line is what decides: the other implementation, where it says so.
        line = lines[str(sizes[0])]
        line["implementation"] = "cpu_simd" if line["implementation"] != "cpu_simd" else "reference"
        line.pop("configuration", None)
        table.write_text("".join(json.dumps(one) + "\n" for one in lines.values()))
        explained = json.loads(self.run_ridge("ops", "explain", "gemm", f"m={sizes[0]}", "n=64", "k=64", "dtype=f32", "--json"))
        chosen, = (row for row in explained[0]["rows"] if row["chosen"])
        self.assertEqual(chosen["implementation"], line["implementation"])
        self.assertIn("preferred by the tuned table", chosen["reason"])

    def until(self, holds, what, limit=60):
        end = time.time() + limit
        while not holds():
            engine = self.folder / "engine.txt"
            if time.time() > end:
                self.fail(f"not within {limit} s: {what}\n{engine.read_text()[-2000:] if engine.exists() else ''}")
            time.sleep(0.05)


class Places(Base):
    def test_a_place_that_is_none_is_named_with_the_way_out(self):
        for place, says in (("pbs:x", "is no place to run"), ("slurm:partitoin=x", "no option \"partitoin\""), ("ssh", "names no machine")):
            self.assertIn(says, self.run_ridge(*self.optimize("a", "--measure-on", place), code=2))
        self.environment["PATH"] = str(self.folder)
        self.assertIn("Slurm is not here", self.run_ridge(*self.optimize("a", "--measure-on", "slurm"), code=3))

    def test_a_replica_is_of_another_device(self):
        self.assertIn("is the device that the campaign measures on", self.run_ridge(*self.optimize("a", "--replicate-on", "local"), code=2))
        self.assertIn("replicate_on: \"pbs\" is no place to run", self.run_ridge(*self.optimize("a", "--replicate-on", "pbs"), code=2))

    def test_tuning_refuses_what_cannot_be_there(self):
        tune = ("tune", "gemm", "m=64", "n=64", "k=64")
        self.assertIn("add --on cuda", self.run_ridge(*tune, "--devices", "0,1", code=2))
        self.assertIn("both say where", self.run_ridge(*tune, "--devices", "0,1", "--measure-on", "local:0", "--on", "cuda", code=2))
        self.assertIn('local:0,0: "0" is named twice', self.run_ridge(*tune, "--devices", "0,0", "--on", "cuda", code=2))
        self.assertIn("jobs=none: 1 to 1000", self.run_ridge(*tune, "--measure-on", "slurm:jobs=none", code=2))
        self.environment["PATH"] = str(self.folder)
        self.assertIn("Slurm is not here", self.run_ridge(*tune, "--measure-on", "slurm", code=3))

    def test_a_project_states_its_own_commands(self):
        project = pathlib.Path(__file__).parents[2] / "examples/project_cpp"
        ssh = self.folder / "ssh"  # there may be none here
        ssh.write_text("#!/bin/sh\n")
        ssh.chmod(0o755)
        self.environment["PATH"] = f"{self.folder}:{self.environment['PATH']}"
        words = ("optimize", "rowsum", "--project", project, "--yes", "--measure-on", "ssh:a")
        self.assertIn("by its own commands", self.run_ridge(*words, code=2))

    def test_a_folder_that_is_not_shared_is_named(self):
        says = self.run_ridge("unit", self.folder / "not there", "ridge-1", "0", code=3)
        self.assertIn("is not the folder that the units were written to", says)
        self.assertIn("folder=DIR", says)


class Ssh(Base):
    def machine(self, *names, cache="cache"):
        """The words after ssh: of machines that answer by these names, with a cache folder there. A real sshd, where it can be started."""
        names = names or ("near",)
        sshd = shutil.which("sshd", path=one_node_slurm.search_path())
        if sshd is None or shutil.which("ssh") is None or os.geteuid() != 0:
            return self.stand_in(names=names, cache=cache)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="ridge-sshd-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        port = one_node_slurm.free_port()
        for name in ("host_key", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        (folder / "authorized").write_bytes((folder / "key.pub").read_bytes())
        environment = f'"RIDGE_CACHE_DIR={self.folder}/{cache}" "RIDGE_STATE_DIR={self.environment["RIDGE_STATE_DIR"]}"'
        (folder / "sshd_config").write_text(f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\nAuthorizedKeysFile {folder}/authorized\n"
                                            f"PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nSetEnv {environment}\n")
        (folder / "config").write_text(f"Host {' '.join(names)}\n  HostName 127.0.0.1\n  Port {port}\n  User {getpass.getuser()}\n  IdentityFile {folder}/key\n"
                                       f"  UserKnownHostsFile {folder}/known\n  StrictHostKeyChecking accept-new\n")
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        daemon = subprocess.Popen([sshd, "-D", "-f", folder / "sshd_config"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.terminate)
        self.until(lambda: subprocess.run(["ssh", "-F", folder / "config", "-o", "BatchMode=yes", "near", "true"], capture_output=True).returncode == 0,
                   "sshd answers")
        return f"{','.join(names)},config={folder}/config,folder={self.folder}/there"

    def stand_in(self, run='exec sh -c "$*"', names=("near",), cache="cache"):
        """An ssh that runs the command here, by the line `run`."""
        programs = self.folder / "programs"
        programs.mkdir()
        (programs / "ssh").write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift 2\n'
                                      f"export RIDGE_CACHE_DIR={shlex.quote(f'{self.folder}/{cache}')}\n{run}\n")
        (programs / "ssh").chmod(0o755)
        self.environment["PATH"] = f"{programs}:{self.environment['PATH']}"
        return f"{','.join(names)},folder={self.folder}/there"

    def test_a_campaign_whose_engine_is_killed_has_the_same_record(self):
        self.run_ridge(*self.optimize("undisturbed"))
        place = f"ssh:{self.machine()},ridge={RIDGE}".replace(str(self.folder), str(self.folder).replace(",", "\\,"))
        engine = self.start(*self.optimize("disturbed", "--measure-on", place))
        self.until(lambda: (self.folder / "disturbed/journal.jsonl").exists() and "baseline" in json.dumps(self.effects("disturbed")), "the baseline", 120)
        engine.send_signal(signal.SIGKILL)
        engine.wait()
        self.run_ridge("campaign", "resume", "disturbed", "--wait-for-quiet", "1s")
        self.check_record("disturbed", self.effects("undisturbed"))
        self.assertIn("ssh:near", (self.folder / "disturbed/manifest.yaml").read_text())

    @staticmethod
    def looks(unit):
        """Whether a unit has started and is a look, not the question what the device is."""
        try:
            return (unit / "started-1.json").exists() and json.loads((unit / "unit.json").read_text())["request"]["task"] == "screen"
        except FileNotFoundError:
            return False  # it has ended meanwhile

    def test_looks_at_a_sweep_are_shared_and_decisions_stay_on_one_device(self):
        place = f"ssh:{self.machine()},ridge={RIDGE}".replace(str(self.folder), str(self.folder).replace(",", "\\,"))
        proposer = self.folder / "proposer.py"
        proposer.write_text(TILES)
        engine = self.start("optimize", "gemm", *SHAPES, "--max-iterations", "1", "--planned", "2", "--wait-for-quiet", "1s", "--no-git", "--yes", "--budget", "4m",
                            "--directory", "shared", "--screen-on", place + ",slots=2", "--define", "VECTOR=4", "--proposer",
                            f"command:{sys.executable} {shlex.quote(str(proposer))}")
        # The engine dies while the machines look, which goes on; what they see is the next one's.
        looking = lambda: len([unit for unit in self.folder.glob("there/*-screen/units/*") if self.looks(unit)]) >= 2
        self.until(lambda: looking() or engine.poll() is not None, "two machines look", 300)
        self.assertIsNone(engine.poll(), "they were too quick to be seen")
        engine.send_signal(signal.SIGKILL)
        engine.wait()
        says = self.run_ridge("campaign", "resume", "shared", "--wait-for-quiet", "1s", limit=400)
        self.assertNotIn("of an earlier process cancelled", says)
        looks = [event["payload"] for event in self.events("shared") if event["kind"] == "screened"]
        self.assertEqual([len(look["rows"]) for look in looks], [6])
        self.assertEqual([row["detail"] for row in looks[0]["rows"] if row["outcome"] == "HARNESS_FAULT"], [])
        self.assertEqual(len({row["candidate"] for row in looks[0]["rows"]}), 6)
        self.check_once("shared")
        self.assertIn("screen_on", (self.folder / "shared/manifest.yaml").read_text())

    def replicate(self, place):
        """A campaign, replicated there, with time for an accept also on a busy machine."""
        self.run_ridge(*self.optimize("a", "--replicate-on", place, budget="4m"), limit=400)
        final = next(event["payload"] for event in self.events("a") if event["kind"] == "final")
        if final["initial"] == final["best"]:
            self.skipTest("no round was accepted on this machine, so that there is nothing to replicate")

    def replica(self, name):
        events = self.events(name)
        self.assertEqual([event["kind"] for event in events[-4:]], ["intent", "replicated", "intent", "reported"])
        return events[-3]["payload"]

    def test_the_end_is_measured_again_on_another_machine(self):
        named = ["unshare", "--uts", "sh", "-c", "hostname far && hostname"]
        if not shutil.which("unshare") or subprocess.run(named, capture_output=True, text=True).stdout.strip() != "far":
            self.skipTest("no machine of another name can be played here (unshare --uts)")
        place = f"ssh:{self.stand_in(FAR)},ridge={RIDGE}"
        self.replicate(place)
        replica = self.replica("a")
        self.assertEqual(replica["note"], "")
        self.assertEqual(replica["environment"]["facts"]["node.host"], "far")
        self.assertEqual([effect["label"].split(" dtype")[0] for effect in replica["effects"]], ["suite", "m=32 n=32 k=32"])
        self.assertGreaterEqual(len(replica["evaluation"]["sessions"]), 3)
        self.assertIn("replicate_on: ", (self.folder / "a/manifest.yaml").read_text())
        for command in ("verify", "replay"):
            self.run_ridge("campaign", command, "a")
        self.assertIn("On another device of the same kind, ", self.run_ridge("campaign", "status", "a"))
        report = json.loads(self.run_ridge("campaign", "status", "a", "--json"))["replica"]
        self.assertEqual(len(report["rows"]), 2)
        self.assertRegex(report["agreement"], "it (agrees|differs) on")
        self.assertIn("of host far", (self.folder / "a/report/REPORT.md").read_text())
        self.assertEqual(list((self.folder / "there").glob("campaign-*-replica/units/*")), [], "what was fetched is gone there")

    def test_the_same_machine_is_named_and_the_campaign_ends(self):
        self.replicate(f"ssh:{self.stand_in()},ridge={RIDGE}")
        self.assertIn("is the device that the campaign measured on", self.replica("a")["note"])
        self.assertIn("Not measured on another device", self.run_ridge("campaign", "status", "a"))

    def test_a_machine_that_is_not_reached_at_the_end_is_a_note(self):
        place = self.stand_in("echo 'near: No route to host' >&2; exit 255")
        self.replicate(f"ssh:{place}")
        self.assertIn("near: No route to host", self.replica("a")["note"])
        self.run_ridge("campaign", "verify", "a")

    def test_two_machines_tune_together_and_their_table_comes_here(self):
        sizes = (64, 128, 256, 512)
        place = f"ssh:{self.machine('near', 'far', cache='cache of theirs')},ridge={RIDGE}"
        tune = ("tune", "gemm", "--shapes", self.shapes(*sizes), "--keep-disturbed", "--measure-on", place)
        says = self.run_ridge(*tune)
        self.assertIn("measured on ssh:near,far", says)
        self.assertIn("the table of", says)
        theirs, = (self.folder / "cache of theirs/tuned").glob("*.jsonl")
        self.assertEqual(len(theirs.read_text().splitlines()), len(sizes))
        kept = sorted(theirs.read_text().splitlines())
        self.assertEqual(sorted((self.folder / "cache/tuned" / theirs.name).read_text().splitlines()), kept)
        # Once more: their tables know it, and nothing is measured again.
        choices, _ = json.JSONDecoder().raw_decode(self.run_ridge(*tune, "--json"))  # progress comes after it
        self.assertEqual(sorted(theirs.read_text().splitlines()), kept)
        self.check_table(choices, sizes)
        self.assertEqual(list((self.folder / "there").iterdir()), [], "units stay behind")

    def unit_runs(self):
        return any((self.folder / "there").glob("campaign-*/units/*/started-1.json"))

    def test_a_connection_that_is_lost_in_mid_unit_loses_and_doubles_nothing(self):
        cut, late = self.folder / "cut", self.folder / "late"
        lost = "echo 'Connection reset by peer' >&2; exit 255"
        ssh = f'[ -e "{cut}" ] && {{ {lost}; }}\n[ -e "{late}" ] && {{ sh -c "$*" > /dev/null; {lost}; }}\nexec sh -c "$*"'
        engine = self.start(*self.optimize("disturbed", "--measure-on", f"ssh:{self.stand_in(ssh)},ridge={RIDGE}", budget="4m"))
        said = lambda: (self.folder / "engine.txt").read_text().count("cannot be reached")
        for trouble in (cut, late):  # it is refused; and the command runs, but its answer does not come
            self.until(self.unit_runs, "a unit runs", 120)
            before = said()
            trouble.touch()
            self.until(lambda: said() > before or engine.poll() is not None, "the engine finds out")
            time.sleep(3)
            trouble.unlink()
            self.until(lambda: not self.unit_runs() or engine.poll() is not None, "its result is fetched", 120)
        self.until(lambda: engine.poll() is not None, "the campaign ends", 200)
        self.assertEqual(engine.returncode, 0, (self.folder / "engine.txt").read_text()[-2000:])
        self.assertIn("near cannot be reached (ssh near: Connection reset by peer)", (self.folder / "engine.txt").read_text())
        self.check_once("disturbed")

    def test_a_full_disk_is_named_with_its_machine_and_resume_goes_on(self):
        there = self.folder / "there"
        there.mkdir()
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", there], capture_output=True).returncode != 0:
            self.skipTest("a small file system cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", there])
        engine = self.start(*self.optimize("disturbed", "--measure-on", f"ssh:{self.stand_in()},ridge={RIDGE}", budget="4m"))
        self.until(self.unit_runs, "a unit runs", 120)
        with self.assertRaises(OSError), open(there / "filler", "wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        self.until(lambda: engine.poll() is not None, "the engine gives up", 200)
        said = (self.folder / "engine.txt").read_text()
        self.assertEqual(engine.returncode, 6, said[-2000:])
        self.assertIn("near", said)
        self.assertIn("No space left on device", said)
        self.assertIn("nothing is lost; continue with: ridge campaign resume", said)
        (there / "filler").unlink()
        self.run_ridge("campaign", "resume", "disturbed", "--wait-for-quiet", "1s")
        self.check_once("disturbed")

    def test_a_machine_that_does_not_let_us_in_is_an_error_with_the_command_to_try(self):
        programs = self.folder / "programs"
        programs.mkdir()
        (programs / "ssh").write_text("#!/bin/sh\necho 'near: Permission denied (publickey).' >&2\nexit 255\n")
        (programs / "ssh").chmod(0o755)
        self.environment["PATH"] = f"{programs}:{self.environment['PATH']}"
        says = self.run_ridge(*self.optimize("a", "--measure-on", "ssh:near"), code=6)
        self.assertIn("Permission denied", says)
        self.assertIn("ssh -o BatchMode=yes near true", says)


class Slurm(Base):
    def setUp(self):
        super().setUp()
        if one_node_slurm.why_not():
            self.skipTest(one_node_slurm.why_not())
        self.node = one_node_slurm.OneNode()
        self.addCleanup(self.node.stop)
        self.node.start()
        for name in ("SLURM_CONF", "PATH"):
            self.environment[name] = self.node.environment[name]

    def test_what_slurm_refuses_is_said_with_the_way_out(self):
        says = self.run_ridge(*self.optimize("a", "--measure-on", "slurm:partition=gpuu"), code=2)
        self.assertIn("invalid partition specified: gpuu", says)
        self.assertIn("sinfo", says)
        says = self.run_ridge(*self.optimize("a", "--measure-on", "slurm:gres=gpu:8"), code=2)
        self.assertIn("slurm:gres", says)

    def test_a_campaign_survives_engine_controller_node_and_drain(self):
        self.run_ridge(*self.optimize("undisturbed"))
        words = self.optimize("disturbed", "--measure-on", "slurm:partition=main")
        engine = self.start(*words)
        journal = self.folder / "disturbed/journal.jsonl"
        self.until(lambda: journal.exists() and "prepared" in self.effects("disturbed") and self.node.running(), "a unit of the baseline runs", 120)
        # The daemon of the node, in the middle of a unit, which goes on.
        self.node.kill_daemon("slurmd")
        # The engine, and while it is away the controller.
        engine.send_signal(signal.SIGKILL)
        engine.wait()
        self.node.kill_daemon("slurmctld")
        self.node.start_controller()
        self.node.start_node()
        self.node.until(lambda: "vm" in self.node.ask("sinfo", "-h", "-o", "%N") or self.node.host in self.node.ask("sinfo", "-h", "-o", "%N"), "the controller answers")
        engine = self.start("campaign", "resume", "disturbed", "--wait-for-quiet", "1s")
        self.until(lambda: "baseline" in self.effects("disturbed") and self.node.running(), "a unit of the round runs", 120)
        # The node with all that runs on it, for good: what ran there is lost, and runs again.
        self.node.lose_node()
        self.node.ask("scontrol", "update", f"nodename={self.node.host}", "state=down", "reason=power")
        self.node.start_node()
        self.node.ask("scontrol", "update", f"nodename={self.node.host}", "state=resume")
        for job in self.node.ask("squeue", "-h", "-o", "%A").split():
            self.node.ask("scontrol", "update", f"jobid={job}", "StartTime=now")  # else it waits for two minutes
        self.until(self.node.running, "the unit runs again")
        # A drained node ends what runs on it, and takes nothing more until it is resumed.
        self.node.ask("scontrol", "update", f"nodename={self.node.host}", "state=drain", "reason=test")
        time.sleep(2)
        self.node.ask("scontrol", "update", f"nodename={self.node.host}", "state=resume")
        self.until(lambda: engine.poll() is not None, "the campaign ends", 200)
        self.assertEqual(engine.returncode, 0, (self.folder / "engine.txt").read_text()[-2000:])
        self.check_record("disturbed", self.effects("undisturbed"))
        self.assertEqual(self.node.ask("squeue", "-h").split(), [])

    def test_two_jobs_tune_at_once_and_one_that_is_killed_is_made_up_for(self):
        sizes = (64, 96, 128, 192, 256, 384, 512, 768)
        with open(self.folder / "choices.json", "w") as out, open(self.folder / "engine.txt", "w") as log:
            words = ("tune", "gemm", "--shapes", self.shapes(*sizes), "--keep-disturbed", "--json", "--measure-on", "slurm:jobs=2")
            engine = subprocess.Popen([RIDGE, *map(str, words)], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=log)
        self.addCleanup(engine.wait)
        self.addCleanup(engine.kill)
        jobs = lambda: self.node.ask("squeue", "-h", "-t", "RUNNING", "--array", "-o", "%i").split()
        self.until(lambda: len(jobs()) == 2, "two jobs run at once", 120)
        self.node.ask("scancel", "--signal=KILL", "--full", jobs()[0])
        self.until(lambda: engine.poll() is not None, "the tuning ends", 200)
        self.assertEqual(engine.returncode, 0, (self.folder / "engine.txt").read_text()[-2000:])
        self.check_table(json.loads((self.folder / "choices.json").read_text()), sizes)  # all of them, also what the killed job had
        self.assertEqual(self.node.ask("squeue", "-h").split(), [])

    def test_a_pause_cancels_the_job(self):
        engine = self.start(*self.optimize("paused", "--measure-on", "slurm"))
        self.until(lambda: (self.folder / "paused/journal.jsonl").exists() and self.node.running(), "a unit runs", 120)
        engine.send_signal(signal.SIGINT)
        engine.send_signal(signal.SIGINT)
        engine.wait(timeout=60)
        self.run_ridge("campaign", "status", "paused")
        self.assertIn(engine.returncode, (8, 130))


if __name__ == "__main__":
    unittest.main(verbosity=1)
