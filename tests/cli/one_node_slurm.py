"""A Slurm of one node on the loopback interface, with daemons of its own ports and folders: for tests and for trying things out.

  python3 tests/cli/one_node_slurm.py      starts it, prints what to export, and stops it at the end of its input
"""
import getpass
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo")


def why_not():
    """Why no Slurm can be started here; empty: it can."""
    missing = [program for program in PROGRAMS if shutil.which(program, path=search_path()) is None]
    if missing:
        return f"{', '.join(missing)} not installed: apt-get install slurm-wlm munge"
    return "" if os.geteuid() == 0 else "daemons of Slurm that start jobs run as root"


def search_path():
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class OneNode:
    def __init__(self, cpus=2):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ridge-slurm-"))
        self.folder.chmod(0o755)
        self.host = socket.gethostname().split(".")[0]
        self.configuration = self.folder / "slurm.conf"
        self.environment = dict(os.environ, SLURM_CONF=str(self.configuration), PATH=search_path())
        self.daemons = {}
        for name in ("munge", "state", "spool"):
            (self.folder / name).mkdir(mode=0o755)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        user = getpass.getuser()
        self.configuration.write_text(f"""ClusterName=ridge
SlurmctldHost={self.host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge/sock
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
SlurmctldPidFile={self.folder}/ctld.pidf
SlurmdPidFile={self.folder}/slurmd.pidf
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,batch_sched_delay=0,requeue_delay=1
JobCompType=jobcomp/none
ReturnToService=2
SlurmdTimeout=6
KillWait=2
MinJobAge=60
JobRequeue=1
NodeName={self.host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=500
PartitionName=main Nodes={self.host} Default=YES MaxTime=30
""")

    def start(self):
        self.start_daemon("munged", "-F", "--force", f"--key-file={self.folder}/munge.key", f"--socket={self.folder}/munge/sock",
                          f"--pid-file={self.folder}/munged.pidf", f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/seed")
        self.until(lambda: (self.folder / "munge/sock").exists(), "munged listens")
        self.start_controller()
        self.start_node()
        self.until(lambda: "idle" in self.ask("sinfo", "-h", "-o", "%T"), "the node is idle")
        return self

    def start_controller(self):
        self.start_daemon("slurmctld", "-D", "-f", self.configuration)

    def start_node(self):
        self.start_daemon("slurmd", "-D", "-f", self.configuration, "-N", self.host)

    def start_daemon(self, name, *arguments):
        with open(self.folder / f"{name}.out", "ab") as log:
            self.daemons[name] = subprocess.Popen([name, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                  env=self.environment, start_new_session=True)

    def kill_daemon(self, name, how=signal.SIGKILL):
        daemon = self.daemons.pop(name)
        daemon.send_signal(how)
        daemon.wait(timeout=30)

    def lose_node(self):
        """The node without power: its daemon, the daemons of its jobs, and then the processes of those."""
        self.kill_daemon("slurmd")
        for sign in (b"slurmstepd", b"SLURM_JOB_ID="):
            for process in pathlib.Path("/proc").glob("[0-9]*"):
                try:
                    told = (process / "environ").read_bytes() + (process / "comm").read_bytes()
                    if f"SLURM_CONF={self.configuration}\0".encode() in told and sign in told:
                        os.kill(int(process.name), signal.SIGKILL)
                except OSError:
                    continue  # it ended meanwhile

    def ask(self, *words):
        ended = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=60)
        return ended.stdout + ended.stderr

    def running(self):
        return self.ask("squeue", "-h", "-r", "-t", "RUNNING", "-o", "%i").split()

    def until(self, holds, what, limit=60):
        end = time.time() + limit
        while not holds():
            if time.time() > end:
                raise AssertionError(f"not within {limit} s: {what}\n{self.ask('squeue')}\n{self.ask('sinfo', '-R')}")
            time.sleep(0.1)

    def stop(self):
        if "slurmctld" in self.daemons:
            self.ask("scancel", "--user", getpass.getuser())
        for name in ("slurmd", "slurmctld", "munged"):
            if name in self.daemons:
                self.kill_daemon(name, signal.SIGTERM)
        shutil.rmtree(self.folder, ignore_errors=True)


if __name__ == "__main__":
    if why_not():
        sys.exit(why_not())
    node = OneNode().start()
    print(f"export SLURM_CONF={node.configuration} PATH=$PATH:/usr/sbin", flush=True)
    sys.stdin.read()
    node.stop()
