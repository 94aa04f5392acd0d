"""Signing in by OpenID Connect, with the real sidecar and a real identity provider (npm's oidc-provider).

Needs Node.js with npm; it is skipped where the packages cannot be had.
"""
import base64
import json
import signal
import subprocess
import unittest
import urllib.error
import urllib.request

import pytest
from starting import PROGRAM, Place, Unavailable, free_port, until
from world import Provider, modules, new_browser

OWN_TOKEN = "0123456789abcdef0123456789abcdef"


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.text = status, headers, body
        self.json = json.loads(body) if "json" in headers.get("Content-Type", "") else None


@pytest.mark.usefixtures("servers")
class SignIn(unittest.TestCase):
    """One sidecar, one provider; each test restores what it changed."""

    @classmethod
    def setUpClass(cls):
        try:
            packages = modules()
        except Unavailable as why:
            raise unittest.SkipTest(str(why))
        cls.place = place = Place("sign_in")
        cls.addClassCleanup(place.close)
        cls.folder, cls.config, cls.sql = place.folder, place.config, place.sql
        cls.port = free_port()
        cls.provider = Provider(packages, f"http://127.0.0.1:{cls.port}/v1/session/callback")
        cls.addClassCleanup(cls.provider.remove)
        cls.provider.start()
        (cls.folder / "token").write_text(OWN_TOKEN + "\n")
        (cls.folder / "token").chmod(0o600)
        cls.write_config("sre: operator, everyone: reader")
        cls.sidecar = place.start([PROGRAM, "run", "-c", cls.config])
        until("the sidecar is ready", lambda: cls.call("", "/readyz").status == 200, away=OSError)

    @classmethod
    def write_config(cls, grants):
        cls.place.write_config(more=f"""
http:
  listen: "127.0.0.1:{cls.port}"
  token_file: token
  oidc:
    issuer: {cls.provider.issuer}
    client_id: rung
    clients: [ci]
    roles_claim: groups
    map: {{ {grants}, deployers: {{ role: operator, queues: ["deploys.*"] }} }}
""")

    @classmethod
    def call(cls, token, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{cls.port}{path}", data, {"Content-Type": "application/json"})
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return Answer(answer.status, answer.headers, answer.read().decode())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.headers, error.read().decode())

    def reload(self, grants):
        def loaded():
            return (self.folder / "rung.log").read_text().count("config reloaded: ")

        before = loaded()
        self.write_config(grants)
        self.sidecar.send_signal(signal.SIGHUP)
        until("the config is reloaded", lambda: loaded() > before)

    def metric(self, name):
        text = self.call(OWN_TOKEN, "/metrics").text
        return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))

    def problems(self):
        return [problem["name"] for problem in self.call("", "/readyz").json["problems"]]

    def test_a_person_logs_in(self):
        token = self.provider.token_of_person("alice")
        you = until("the keys are fetched", lambda: (a := self.call(token, "/v1/you")).status == 200 and a).json
        self.assertEqual((you["name"], you["role"], you["queues"]), ("alice", "operator", None))
        created = self.call(token, "/v1/tasks", {"queue": "orders", "delay": "1h", "body": "x"})
        self.assertEqual(created.status, 201, created.text)
        task = created.json["retry_id"]
        self.assertEqual(self.call(token, f"/v1/tasks/{task}/cancel", {"reason": "paid"}).status, 200)
        who = self.call(token, f"/v1/tasks/{task}/audit").json["audit"][0]["who"]
        self.assertRegex(who, r"^alice, 127\.0\.0\.1 \(http, oidc sub [\w.@+-]{1,40}\)$")
        body = self.call(token, f"/v1/tasks/{task}/body")
        self.assertEqual((body.status, body.json["needs_role"]), (403, "editor"))
        self.assertEqual(body.json["detail"], "the token of alice has the role operator: body needs the role editor")

    def test_a_browser_logs_in_for_the_console(self):
        here = f"http://127.0.0.1:{self.port}"

        def session(browser):
            with browser.open(f"{here}/v1/session", timeout=120) as answer:
                return json.load(answer)

        browser = new_browser()
        self.assertEqual(session(browser)["sign_in"], {"token": True, "oidc": True})
        back = self.provider.log_in(browser, f"{here}/v1/session/oidc?to=/console/causes", "alice", f"{here}/v1/session/callback")
        # Somebody who is sent this link is not signed in as alice: it is for the browser that began.
        with self.assertRaises(urllib.error.HTTPError) as refused:
            new_browser().open(back, timeout=120)
        self.assertTrue(refused.exception.headers["Location"].startswith("/console/sign-in?error="), refused.exception.headers)
        with self.assertRaises(urllib.error.HTTPError) as done:
            browser.open(back, timeout=120)
        self.assertEqual((done.exception.code, done.exception.headers["Location"]), (302, "/console/causes"))
        signed_in = session(browser)
        self.assertEqual((signed_in["name"], signed_in["role"], signed_in["way"]), ("alice", "operator", "oidc"))
        task = urllib.request.Request(f"{here}/v1/tasks", json.dumps({"queue": "orders", "delay": "1h"}).encode(),
                                      {"Content-Type": "application/json", "X-Rung-CSRF": signed_in["csrf"]})
        with browser.open(task, timeout=120) as created:
            self.assertEqual(created.status, 201)
        # The code is good for one login.
        with self.assertRaises(urllib.error.HTTPError) as again:
            browser.open(back, timeout=120)
        self.assertIn("error=", again.exception.headers["Location"])

    def test_programs_by_client_credentials(self):
        ci = self.provider.token_of_client("ci")
        you = self.call(ci, "/v1/you").json
        self.assertEqual((you["name"], you["role"], you["queues"]), ("ci", "operator", ["deploys.*"]))
        self.assertEqual(self.call(ci, "/v1/tasks", {"queue": "deploys.eu", "delay": "1h"}).status, 201)
        self.assertEqual(self.call(ci, "/v1/tasks", {"queue": "orders", "delay": "1h"}).status, 403)
        wiki = self.call(self.provider.token_of_client("wiki"), "/v1/you")
        self.assertEqual(wiki.status, 401)
        self.assertIn("(client_id) that is neither", wiki.json["detail"])

    def test_a_reload_changes_the_map(self):
        token = self.provider.token_of_person("alice")
        self.reload("everyone: reader")
        self.assertEqual(self.call(token, "/v1/you").json["role"], "reader")
        self.reload("sre: admin")
        self.assertEqual(self.call(token, "/v1/you").json["role"], "admin")
        self.reload("sre: operator, everyone: reader")
        self.assertEqual(self.call(token, "/v1/you").json["role"], "operator")

    def test_doctor_and_check(self):
        self.assertEqual(subprocess.run([PROGRAM, "check", "-c", self.config], stdout=subprocess.DEVNULL, check=False).returncode, 0)
        told = subprocess.run([PROGRAM, "doctor", "-c", self.config], stdout=subprocess.PIPE, text=True, check=False).stdout
        self.assertIn(f"the identity provider {self.provider.issuer} has 2 keys for signatures", told)

    def test_keys_change_and_the_provider_is_away(self):
        """New keys are found without a restart; what was signed stays valid while the provider is away."""
        old = self.provider.token_of_person("alice")
        self.assertEqual(self.call(old, "/v1/you").status, 200)
        self.provider.stop()
        self.assertEqual(self.call(old, "/v1/you").status, 200, "away")
        # Unknown keys make the sidecar ask, but not often.
        stranger = base64.urlsafe_b64encode(b'{"alg":"ES256","kid":"x"}').rstrip(b"=").decode() + ".e30." + "A" * 86
        until("it is noticed that the provider is away",
              lambda: self.call(stranger, "/v1/you").status in (401, 503) and "oidc" in self.problems())
        self.assertEqual(self.call(old, "/v1/you").status, 200, "away, and known to be")
        self.assertGreater(self.metric('rung_oidc_key_fetches_total{result="failed"}'), 0)
        self.assertEqual(self.metric("rung_oidc_keys "), 2)
        self.provider.start()
        new = self.provider.token_of_person("alice")
        refused = self.call(new, "/v1/you")
        self.assertIn(refused.status, (401, 503, 200))
        until("the new keys are known", lambda: self.call(new, "/v1/you").status == 200)
        self.assertEqual(self.problems(), [])
        gone = self.call(old, "/v1/you")
        self.assertEqual(gone.status, 401, "the provider has withdrawn its key")
        self.assertIn("is none of the identity provider", gone.json["detail"])
        log = (self.folder / "rung.log").read_text()
        self.assertIn("identity provider's keys cannot be fetched", log)
        for token in (old, new, OWN_TOKEN):
            self.assertNotIn(token, log)
