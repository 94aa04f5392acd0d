"""An identity provider (npm's oidc-provider), and a person's login to it as a browser does it."""
import base64
import hashlib
import http.cookiejar
import json
import os
import pathlib
import re
import secrets
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from starting import free_port, npm_modules, until

HERE = pathlib.Path(__file__).resolve().parent

CALLBACK = "http://127.0.0.1/callback"  # nobody listens there: the code is in the address


def modules():
    return npm_modules(HERE / "provider", "oidc-provider")


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def new_browser():
    """It has cookies, and stops at each redirect."""
    return urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()), NoRedirect())


class Provider:
    def __init__(self, folder, callback):
        """`callback`: the redirect URI of Rung's console."""
        self.folder, self.port, self.process, self.callback = folder, free_port(), None, callback
        self.issuer = f"http://127.0.0.1:{self.port}"
        # Beside node_modules, where Node.js looks for packages.
        self.script = folder / f"provider-{os.getpid()}.mjs"
        shutil.copy(HERE / "provider" / "provider.mjs", self.script)

    def start(self):
        """With new keys."""
        log = self.script.with_suffix(".log")
        with log.open("w") as out:
            self.process = subprocess.Popen(["node", self.script, str(self.port), self.callback], stdout=out, stderr=subprocess.STDOUT)
        until("the identity provider listens", lambda: "listening" in log.read_text() or self.process.poll() is not None, told=log.read_text)
        if self.process.poll() is not None:
            raise RuntimeError(f"the identity provider does not start: {log.read_text()}")

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)
            self.process = None

    def remove(self):
        self.stop()
        self.script.unlink()
        self.script.with_suffix(".log").unlink(missing_ok=True)

    def token_of_client(self, client):
        """An access token, by client credentials."""
        form = {"grant_type": "client_credentials", "resource": "urn:rung"}
        request = urllib.request.Request(f"{self.issuer}/token", urllib.parse.urlencode(form).encode())
        request.add_header("Authorization", "Basic " + base64.b64encode(f"{client}:{client}-secret".encode()).decode())
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["access_token"]

    def log_in(self, browser, url, name, end):
        """Follows redirects from `url`, fills in the provider's forms, and returns the first address that begins with `end`."""
        def go(url, form=None):
            """Where it redirects to; without a redirect, the page."""
            data = None if form is None else urllib.parse.urlencode(form).encode()
            try:
                with browser.open(urllib.parse.urljoin(self.issuer, url), data, timeout=120) as page:
                    return None, page.read().decode()
            except urllib.error.HTTPError as error:
                if error.code not in (302, 303):
                    raise
                return error.headers["Location"], ""

        for _ in range(20):
            where, page = go(url)
            if where is None:
                # The form of the login, then that of the consent.
                action = re.search(r'<form[^>]* action="([^"]+)"', page)[1]
                prompt = re.search(r'name="prompt" value="(\w+)"', page)[1]
                where, _ = go(action, {"prompt": prompt, "login": name, "password": "any"})
            if where.startswith(end):
                return where
            url = where
        raise RuntimeError("the login does not end")

    def token_of_person(self, name):
        """An ID token, by a login: authorization code flow with PKCE, and the provider's forms."""
        verifier = secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {"client_id": "rung", "response_type": "code", "scope": "openid", "redirect_uri": CALLBACK,
                 "code_challenge": challenge, "code_challenge_method": "S256", "state": "s"}
        where = self.log_in(new_browser(), "/auth?" + urllib.parse.urlencode(query), name, CALLBACK)
        code = urllib.parse.parse_qs(urllib.parse.urlsplit(where).query)["code"][0]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "client_id": "rung",
                "code_verifier": verifier}
        with urllib.request.urlopen(f"{self.issuer}/token", urllib.parse.urlencode(form).encode(), timeout=120) as answer:
            return json.load(answer)["id_token"]
