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
ALERTS = yaml.safe_load(open("deploy/prometheus/alerts.yaml"))
DASHBOARD = json.load(open("deploy/grafana/rung.json"))
PATHS = json.loads(subprocess.run([RUNG, "__openapi"], check=True, capture_output=True, text=True).stdout)["paths"]
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


def check_valid(container: dict, text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rung.yaml")
        open(path, "w").write(text)
        names = {e["name"]: str(e.get("value", "pod-1")) for e in container["env"]}
        ran = subprocess.run([RUNG, "check", "-c", path], env=os.environ | names, capture_output=True, text=True)
    expect(ran.returncode == 0, f"rung check: {ran.stderr}")


def check_config(pod: dict, container: dict, text: str) -> None:
    config = yaml.safe_load(text)
    check_valid(container, text)
    expect(config["node"] == "${POD_NAME}", "pods would share a node name")
    grace = pod["terminationGracePeriodSeconds"]
    expect(seconds(config.get("drain", "10s")) < grace, "terminationGracePeriodSeconds is not longer than drain")
    port = int(config["http"]["listen"].rsplit(":", 1)[1])
    expect([p["containerPort"] for p in container["ports"]] == [port], "containerPort is not the port of http.listen")
    scheme = "HTTPS" if "cert" in config["http"] else "HTTP"
    for probe in (container["livenessProbe"], container["readinessProbe"]):
        expect(probe["httpGet"].get("scheme", "HTTP") == scheme, "a probe's scheme")
    check_files(pod, container, re.findall(r"/etc/rung/[\w./-]+", text))


def check_files(pod: dict, container: dict, files: list) -> None:
    """They lie in a volume; those of a Secret that is here are in it."""
    mounts = {m["mountPath"]: m["name"] for m in container["volumeMounts"]}
    volumes = {v["name"]: v for v in pod["volumes"]}
    for file in files:
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


def config_of(pod: dict) -> str:
    """The rung.yaml in the ConfigMap of the pod's volume `config`; "" if there is none."""
    name = {v["name"]: v for v in pod["volumes"]}["config"]["configMap"]["name"]
    found = [m["data"]["rung.yaml"] for m in of_kind("ConfigMap") if m["metadata"]["name"] == name]
    expect(found, "no rung.yaml")
    return found[0] if found else ""


def without_address(groups: list) -> tuple:
    """The alerts with runbook_url as in the source, and what stood before it."""
    before = set()
    for rule in (rule for group in groups for rule in group["rules"]):
        head, _, page = rule["annotations"]["runbook_url"].rpartition("docs/runbooks.md")
        rule["annotations"]["runbook_url"] = f"docs/runbooks.md{page}"
        before.add(head)
    return groups, before


def check_monitoring() -> None:
    """The rules and the dashboard are those of their one source."""
    for rule in of_kind("PrometheusRule"):
        groups, before = without_address(rule["spec"]["groups"])
        expect(groups == ALERTS["groups"], "the alerts are not those of deploy/prometheus/alerts.yaml")
        expect(len(before) == 1 and all(not b or re.fullmatch(r"https?://\S+/", b) for b in before), f"runbook_url: {before}")
    for one in of_kind("ConfigMap"):
        if one["metadata"]["name"].endswith("-dashboard"):
            expect(json.loads(one["data"]["rung.json"]) == DASHBOARD, "the dashboard is not deploy/grafana/rung.json")
            expect(one["metadata"]["labels"].get("grafana_dashboard"), "Grafana's sidecar would not find the dashboard")


def ports_of(config: dict) -> dict:
    """The TCP ports that a sidecar connects to, by what for."""
    def of(place: dict, default: int) -> set:
        urls = place.get("urls", place.get("url", []))
        urls = urls.split(",") if isinstance(urls, str) else urls
        return {int(m[1]) if (m := re.search(r":(\d+)(?:/|$)", url)) else default for url in urls if "${" not in url}

    broker, endpoint = config["broker"], config.get("otel", {}).get("endpoint")
    issuer = config.get("http", {}).get("oidc", {}).get("issuer")
    stores = [g["store"] for g in config.get("groups", {}).values() if "store" in g] + [config.get("store", {})]
    return {"broker": of(broker, 5672), "database": set().union(*(of(s, 3306) for s in stores)),
            "management": of({"url": broker.get("management", "http://broker:15672")}, 15672),
            "oidc": of({"url": issuer}, 443) if issuer else set(),
            "otel": of({"url": endpoint}, 4318) if endpoint else set(), "dns": {53}}


def check_network(policy: dict, labels: dict, container: dict, config: dict) -> None:
    spec = policy["spec"]
    expect(matches(spec["podSelector"]["matchLabels"], labels), "the NetworkPolicy's selector")
    expect(set(spec["policyTypes"]) == {"Ingress", "Egress"}, "the NetworkPolicy's types")
    names = {p["name"] for p in container["ports"]}
    for rule in spec.get("ingress", []):
        expect(rule.get("from"), "the NetworkPolicy lets everybody in")
        expect(rule.get("ports") and {p["port"] for p in rule["ports"]} <= names, "the NetworkPolicy's port")
    expect(all(rule.get("ports") for rule in spec["egress"]), "the NetworkPolicy lets everything out")
    allowed = {(p["port"], p["protocol"]) for rule in spec["egress"] for p in rule["ports"]}
    for what, ports in ports_of(config).items():
        for port in ports:
            expect((port, "TCP") in allowed, f"the NetworkPolicy forbids {what}, port {port}")
    expect((53, "UDP") in allowed, "the NetworkPolicy forbids DNS")


def selectors() -> list:
    """Of what selects the sidecars."""
    return ([m["spec"]["selector"] for m in of_kind("Service")] +
            [m["spec"]["selector"]["matchLabels"] for m in of_kind("Deployment") + of_kind("PodDisruptionBudget")] +
            [m["spec"]["podSelector"]["matchLabels"] for m in of_kind("NetworkPolicy")])


def hook_of(manifest: dict) -> tuple:
    notes = manifest["metadata"].get("annotations", {})
    return notes.get("helm.sh/hook"), int(notes.get("helm.sh/hook-weight", "0"))


def check_migration(job: dict, sidecars: dict) -> None:
    """The Job runs before the release's objects exist, with rights that the sidecars do not get."""
    template = job["spec"]["template"]
    pod, container = template["spec"], template["spec"]["containers"][0]
    expect(container["args"] == ["migrate"], "the Job does not migrate")
    expect(container["image"] == sidecars["containers"][0]["image"], "the Job's image")
    expect(not any(matches(s, template["metadata"]["labels"]) for s in selectors()), "a selector of the sidecars matches the Job's pod")
    hook, weight = hook_of(job)
    expect(hook == "pre-install,pre-upgrade", "the Job is no hook")
    own = {("ConfigMap", v["configMap"]["name"]) for v in pod["volumes"] if "configMap" in v}
    own |= {("Secret", v["secret"]["secretName"]) for v in pod["volumes"] if "secret" in v}
    for one in MANIFESTS:
        if (one["kind"], one["metadata"]["name"]) in own:
            expect(hook_of(one)[0] == hook and hook_of(one)[1] < weight, f"the Job's {one['kind']} comes after it")
    expect(pod["serviceAccountName"] in OUTSIDE + ["default"], "the Job's ServiceAccount comes after it")
    check_security(pod, container)
    check_references(pod)
    text = config_of(pod)
    check_valid(container, text)
    config, theirs = yaml.safe_load(text), yaml.safe_load(config_of(sidecars))
    expect(theirs["store"].get("migrate") is False, "the sidecars migrate, too")
    stores = [config.get("store", {})] + [g.get("store", {}) for g in config.get("groups", {}).values()]
    check_files(pod, container, [s[key] for s in stores for key in ("password_file", "ca", "cert", "key") if key in s])
    secret = {v["name"]: v for v in pod["volumes"]}["secrets"]["secret"]["secretName"]
    used = [v["secret"]["secretName"] for v in sidecars["volumes"] if "secret" in v]
    expect(secret not in used, "the sidecars get the migration's Secret")


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
    text = config_of(pod)
    if text:
        check_config(pod, container, text)
        for policy in of_kind("NetworkPolicy"):
            check_network(policy, labels, container, yaml.safe_load(text))
    for job in of_kind("Job"):
        check_migration(job, pod)


expect(len(of_kind("Deployment")) == 1, "no Deployment")
for one in of_kind("Deployment"):
    check_deployment(one)
check_monitoring()
for one in of_kind("ScaledObject"):
    target = one["spec"]["scaleTargetRef"]["name"]
    expect(target in [d["metadata"]["name"] for d in of_kind("Deployment")], "the ScaledObject's target")
print("\n".join(errors), end="\n" if errors else "")
sys.exit(1 if errors else 0)
