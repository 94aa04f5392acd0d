"""What no schema says about manifests: selectors, references, Pod Security, and that the rung.yaml in them is valid.

usage: rules.py RUNG FILE.json [--outside NAME,...]    an array of manifests; --outside: Secrets and ConfigMaps made elsewhere
Prints one line for each error; exit 1 if there are any.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

import yaml

RUNG, FILE = sys.argv[1:3]
OUTSIDE = sys.argv[4].split(",") if "--outside" in sys.argv else []
MANIFESTS = json.load(open(FILE))
PATHS = json.load(open("src/http/openapi.json"))["paths"]
errors = []


def expect(good: object, what: str) -> None:
    if not good:
        errors.append(what)


def of_kind(kind: str) -> list:
    return [m for m in MANIFESTS if m["kind"] == kind]


def matches(selector: dict, labels: dict) -> bool:
    return bool(selector) and selector.items() <= labels.items()


def seconds(duration: str) -> float:
    unit = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    return sum(int(n) * unit[u] for n, u in re.findall(r"(\d+)(ms|s|m|h)", duration))


def check_security(pod: dict, container: dict) -> None:
    """Pod Security Standards, restricted; and a root folder that cannot be written."""
    own, shared = container["securityContext"], pod["securityContext"]
    expect(shared["runAsNonRoot"] is True and shared["runAsUser"] == 65532, "runs as root")
    expect(shared["seccompProfile"]["type"] == "RuntimeDefault", "seccomp")
    expect(own["allowPrivilegeEscalation"] is False and own["capabilities"] == {"drop": ["ALL"]}, "privileges")
    expect(own["readOnlyRootFilesystem"] is True, "the root folder can be written")
    expect(pod["automountServiceAccountToken"] is False, "the pod gets a token for Kubernetes")
    expect(not any("hostPath" in v for v in pod["volumes"]), "hostPath")


def check_config(pod: dict, container: dict, text: str) -> None:
    config = yaml.safe_load(text)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rung.yaml")
        open(path, "w").write(text)
        names = {e["name"]: str(e.get("value", "pod-1")) for e in container["env"]}
        ran = subprocess.run([RUNG, "check", "-c", path], env=os.environ | names, capture_output=True, text=True)
    expect(ran.returncode == 0, f"rung check: {ran.stderr}")
    expect(config["node"] == "${POD_NAME}", "pods would share a node name")
    grace = pod["terminationGracePeriodSeconds"]
    expect(seconds(config.get("drain", "10s")) < grace, "terminationGracePeriodSeconds is not longer than drain")
    port = int(config["http"]["listen"].rsplit(":", 1)[1])
    expect([p["containerPort"] for p in container["ports"]] == [port], "containerPort is not the port of http.listen")
    scheme = "HTTPS" if "cert" in config["http"] else "HTTP"
    for probe in (container["livenessProbe"], container["readinessProbe"]):
        expect(probe["httpGet"].get("scheme", "HTTP") == scheme, "a probe's scheme")
    # Files that the config names lie in a volume; those of a Secret that is here are in it.
    mounts = {m["mountPath"]: m["name"] for m in container["volumeMounts"]}
    volumes = {v["name"]: v for v in pod["volumes"]}
    for file in re.findall(r"/etc/rung/[\w./-]+", text):
        where = os.path.dirname(file)
        expect(where in mounts, f"{file} is in no volume")
        name = volumes[mounts[where]].get("secret", {}).get("secretName") if where in mounts else None
        for secret in of_kind("Secret"):
            if secret["metadata"]["name"] == name:
                expect(os.path.basename(file) in secret["stringData"], f"{file} is not in the Secret {name}")


def check_references(pod: dict) -> None:
    here = {(m["kind"], m["metadata"]["name"]) for m in MANIFESTS}
    for volume in pod["volumes"]:
        for kind, name in (("Secret", volume.get("secret", {}).get("secretName")),
                           ("ConfigMap", volume.get("configMap", {}).get("name"))):
            expect(name is None or (kind, name) in here or name in OUTSIDE, f"no {kind} {name}")
    account = pod["serviceAccountName"]
    expect(("ServiceAccount", account) in here or account in OUTSIDE + ["default"], f"no ServiceAccount {account}")


def check_deployment(deployment: dict) -> None:
    spec, labels = deployment["spec"], deployment["spec"]["template"]["metadata"]["labels"]
    pod, container = spec["template"]["spec"], spec["template"]["spec"]["containers"][0]
    expect(len(deployment["metadata"]["name"]) <= 46, "a pod's name may be longer than a node name, 64 characters")
    expect(matches(spec["selector"]["matchLabels"], labels), "the Deployment's selector")
    for constraint in pod["topologySpreadConstraints"]:
        expect(matches(constraint["labelSelector"]["matchLabels"], labels), "a topologySpreadConstraint's selector")
    for budget in of_kind("PodDisruptionBudget"):
        expect(matches(budget["spec"].get("selector", {}).get("matchLabels", {}), labels), "the PodDisruptionBudget's selector")
    ports = {p["name"] for p in container["ports"]}
    for service in of_kind("Service"):
        expect(matches(service["spec"]["selector"], labels), "the Service's selector")
        expect(all(p["targetPort"] in ports for p in service["spec"]["ports"]), "the Service's port")
    for monitor in of_kind("ServiceMonitor"):
        services = [s["metadata"]["labels"] for s in of_kind("Service")]
        expect(any(matches(monitor["spec"]["selector"]["matchLabels"], s) for s in services), "the monitor's selector")
        expect(all(e["path"] in PATHS for e in monitor["spec"]["endpoints"]), "the monitor's path")
    for probe in (container["livenessProbe"], container["readinessProbe"]):
        get = probe["httpGet"]
        expect(PATHS.get(get["path"], {}).get("get", {}).get("security") == [], f"{get['path']} is no probe")
        expect(get["port"] in ports, "a probe's port")
    check_security(pod, container)
    check_references(pod)
    config = {v["name"]: v for v in pod["volumes"]}["config"]["configMap"]["name"]
    text = [m["data"]["rung.yaml"] for m in of_kind("ConfigMap") if m["metadata"]["name"] == config]
    expect(text, "no rung.yaml")
    if text:
        check_config(pod, container, text[0])


expect(len(of_kind("Deployment")) == 1, "no Deployment")
for one in of_kind("Deployment"):
    check_deployment(one)
for one in of_kind("ScaledObject"):
    target = one["spec"]["scaleTargetRef"]["name"]
    expect(target in [d["metadata"]["name"] for d in of_kind("Deployment")], "the ScaledObject's target")
print("\n".join(errors), end="\n" if errors else "")
sys.exit(1 if errors else 0)
