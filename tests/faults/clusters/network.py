"""A network of the run's own: a bridge, and a network namespace with an address for each server. Taking a server's link
down cuts it off from the others and from the clients alike. Needs root."""
import os
import random
import subprocess


def sh(*command, check=True):
    return subprocess.run(command, check=check, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout


class Network:
    def __init__(self):
        for _ in range(50):
            self.number = random.randrange(2, 250)
            self.bridge = f"rungbr{self.number}"
            if subprocess.run(["ip", "link", "add", self.bridge, "type", "bridge"], check=False,
                              stderr=subprocess.DEVNULL).returncode == 0:
                break
        else:
            raise RuntimeError("no bridge could be made: this needs root, and the package iproute2")
        self.hosts = []
        sh("ip", "addr", "add", f"10.77.{self.number}.1/24", "dev", self.bridge)
        sh("ip", "link", "set", self.bridge, "up")

    def add(self, host):
        """The namespace and the address of host `host`, 2 to 254."""
        space, link = f"rung{self.number}-{host}", f"rgv{self.number}-{host}"
        sh("ip", "netns", "add", space)
        self.hosts.append(space)
        sh("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
        sh("ip", "link", "set", link, "master", self.bridge, "up")
        address = f"10.77.{self.number}.{host}"
        sh("ip", "-n", space, "addr", "add", address + "/24", "dev", "eth0")
        sh("ip", "-n", space, "link", "set", "eth0", "up")
        sh("ip", "-n", space, "link", "set", "lo", "up")
        return space, address, link

    @staticmethod
    def cut_off(link, yes):
        sh("ip", "link", "set", link, "down" if yes else "up")

    def close(self):
        for space in self.hosts:
            for pid in sh("ip", "netns", "pids", space, check=False).split():
                try:
                    os.kill(int(pid), 9)
                except OSError:
                    pass
            sh("ip", "netns", "del", space, check=False)
        sh("ip", "link", "del", self.bridge, check=False)
