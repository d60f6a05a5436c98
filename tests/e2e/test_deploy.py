"""What deploy/ and conf/ tell people to use is there: options, ports, paths, files, secrets, packages; and what can be run is run.

The image is built and run in test_image.py and test_image_several.py. What the files of Docker Compose and Kubernetes say is held against the program here, and the commands in them
are run by hand."""

import os
import pathlib
import re
import subprocess

import pytest
import yaml
from databases import MariaDB, program
from harness import BINARY, ROOT, Shop, end_with_parent, environment, eventually, keys_of, run
from ports import free_port

DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yml").read_text())
KUBERNETES = {path.name: list(yaml.safe_load_all(path.read_text())) for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))}
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
UNIT = (DEPLOY / "stampede.service").read_text()
PROFILES = sorted(path for path in (ROOT / "conf").glob("*.conf"))
USER, DATA, SECRETS, PORT = 10001, "/var/lib/stampede", "/run/secrets", 20080


def options():
    """Name and default of every option, as the program tells them."""
    found = re.findall(r"^  --([a-z-]+) \S+\n.*Default: (.*)\.$", run("help").out, re.M)
    return {name.replace("-", "_"): default for name, default in found}


OPTIONS = options()


def kind(file, name):
    """The only object of a kind in a file of Kubernetes."""
    (found,) = [each for each in KUBERNETES[file] if each["kind"] == name]
    return found


def pod(file):
    return next(each for each in KUBERNETES[file] if each["kind"] in ("Deployment", "StatefulSet"))["spec"]["template"]["spec"]


def settings(around):
    return {name.removeprefix("STAMPEDE_").lower(): str(value) for name, value in around.items() if name.startswith("STAMPEDE_")}


def dockerfile_environment():
    text = re.search(r"^ENV ((?:.*\\\n)*.*)$", DOCKERFILE, re.M).group(1)
    return dict(word.split("=", 1) for word in text.replace("\\\n", " ").split())


NODES = {
    "compose single": COMPOSE["services"]["single"]["environment"],
    "compose node1": COMPOSE["services"]["node1"]["environment"],
    "compose node2": COMPOSE["services"]["node2"]["environment"],
    "kubernetes single": kind("single.yaml", "ConfigMap")["data"],
    "kubernetes several": kind("several.yaml", "ConfigMap")["data"],
}


def test_the_program_tells_its_options():
    assert len(OPTIONS) > 50 and OPTIONS["http"] == f"127.0.0.1:{PORT}", OPTIONS


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.name)
def test_a_profile_has_no_mistake(path):
    done = run("config", "check", path)
    assert (done.code, done.out) == (0, f"{path}: fine\n"), done


@pytest.mark.parametrize("path", [path for path in PROFILES if path.name != "stampede.conf"], ids=lambda path: path.name)
def test_a_profile_says_only_what_differs_and_has_a_reason_for_it(path):
    lines = path.read_text().splitlines()
    given = [(number, *re.match(r"(\w+) = (.*)", line).groups()) for number, line in enumerate(lines) if line and not line.startswith("#")]
    assert given
    for number, name, value in given:
        same = OPTIONS[name] == value and name not in ("data", "http")  # which are said for those who read
        assert not same, f"{name} has its default"
        above = lines[number - 1]
        assert above.startswith("# ") or re.match(r"\w+ = ", above), f"{name} has no reason"
    for line in lines:
        if line.startswith("#") and " = " in line and not line.startswith("# "):
            assert line[1:].split(" = ")[0] in OPTIONS, line


def test_what_production_has_for_several_nodes_has_no_mistake(tmp_path):
    text = (ROOT / "conf" / "production.conf").read_text()
    several = re.sub(r"^#(\w+ = )", r"\1", text, flags=re.M)
    assert several != text
    path = tmp_path / "several.conf"
    path.write_text(several)
    done = run("config", "check", path)
    assert done.code == 0, done


@pytest.mark.parametrize("name", ["development.conf", "test.conf"])
def test_a_server_sells_with_the_profile(name, own_server):
    shop = Shop(own_server("--config", ROOT / "conf" / name))
    assert shop.win(shop.sale()["id"], "ann")["state"] == "paid"
    shop.close()


@pytest.mark.parametrize("node", NODES)
def test_every_option_of_a_node_is_one_and_its_value_is_taken(node):
    around = {**dockerfile_environment(), **NODES[node]}
    assert settings(NODES[node])
    for name in settings(around):
        assert name in OPTIONS or name == "config", f"{node}: there is no option {name}"
    around["STAMPEDE_CONFIG"] = str(ROOT / "conf" / "production.conf")  # what the image puts there
    around["STAMPEDE_HTTP"] = "127.0.0.1:1"  # where nobody is
    done = run("health", env=around)
    assert done.code == 1, done  # 2 would be a mistake in them


def test_the_image_is_what_the_program_needs():
    assert "COPY conf/production.conf /etc/stampede/stampede.conf" in DOCKERFILE and dockerfile_environment()["STAMPEDE_CONFIG"] == "/etc/stampede/stampede.conf"
    assert settings(dockerfile_environment())["http"] == f"0.0.0.0:{PORT}" and f"EXPOSE {PORT}\n" in DOCKERFILE
    assert dockerfile_environment()["CREDENTIALS_DIRECTORY"] == SECRETS
    assert f"VOLUME {DATA}\n" in DOCKERFILE and f"-g {USER} -m 0700 {DATA}\n" in DOCKERFILE
    assert f"USER {USER}:{USER}\n" in DOCKERFILE and "STOPSIGNAL SIGTERM\n" in DOCKERFILE
    assert re.search(r"^data = " + DATA + "$", (ROOT / "conf" / "production.conf").read_text(), re.M)
    assert 'CMD ["stampede", "health"]\nENTRYPOINT ["stampede"]\nCMD ["serve"]\n' in DOCKERFILE
    version = re.search(r"^VERSION\s*:= (\S+)$", (ROOT / "Makefile").read_text(), re.M).group(1)
    images = {each["image"] for each in COMPOSE["services"].values() if each["image"].startswith("stampede")}
    images |= {pod(file)["containers"][0]["image"] for file in ("single.yaml", "several.yaml")}
    assert images == {f"stampede:{version}"} and f"-t stampede:{version} " in DOCKERFILE


def test_the_image_is_built_from_what_is_installed_and_runs_on_what_is_linked():
    build, _, last = DOCKERFILE.partition("\nFROM debian:12-slim\n")
    assert "FROM debian:12-slim AS build\n" in build and "RUN tools/install-deps run\n" in build and "PREFIX=/usr DESTDIR=/out" in build
    listed = set(re.findall(r"^      ([a-z0-9.+-]+) \\$", last, re.M))
    linked = set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.*?)\]", subprocess.run(["readelf", "-d", BINARY], capture_output=True, text=True, check=True).stdout))
    where = dict(re.findall(r"^\s+(\S+) => (\S+) ", subprocess.run(["ldd", BINARY], capture_output=True, text=True, check=True).stdout, re.M))
    owners = set()
    for library in linked:
        if re.match(r"lib(c|m|asan|ubsan|tsan|gcc_s)\.so|ld-", library):
            continue  # of every system, and of a build with a sanitizer
        paths = {os.path.realpath(where[library]), "/usr" + os.path.realpath(where[library]), os.path.realpath(where[library]).removeprefix("/usr")}
        said = subprocess.run(["dpkg", "-S", *paths], capture_output=True, text=True, check=False).stdout
        owners.add(said.split(":")[0])
    assert listed == owners | {"ca-certificates"}


def secrets_of(node):
    """Options that name a file without a path: what must be among the secrets."""
    return {value for name, value in settings(node).items() if name in ("keys", "payment_keys", "resp_accounts", "tls_key") or name.endswith("_password_file")}


def test_nodes_get_the_secrets_that_their_options_name(tmp_path):
    made = {path.name for path in make_secrets(tmp_path).iterdir()}
    for name, service in COMPOSE["services"].items():
        wanted = set(service.get("secrets", []))
        assert wanted <= set(COMPOSE["secrets"]) and wanted <= made, name
        assert secrets_of(service.get("environment", {})) <= wanted, name
        for path in re.findall(SECRETS + r"/(\w+)", str(service)):
            assert path in wanted, (name, path)
    for name, where in COMPOSE["secrets"].items():
        assert where == {"file": f"./secrets/{name}"}
    template = kind("secret.yaml", "Secret")
    several = NODES["kubernetes several"]
    assert secrets_of(several) == set(template["stringData"]) == secrets_of(NODES["compose node1"]) and set(template["stringData"]) <= made
    volumes = {each["name"]: each for each in pod("several.yaml")["volumes"]}
    mounts = {each["name"]: each["mountPath"] for each in pod("several.yaml")["containers"][0]["volumeMounts"]}
    assert mounts["secrets"] == SECRETS and volumes["secrets"]["secret"] == {"secretName": template["metadata"]["name"], "defaultMode": 0o440}
    assert not secrets_of(NODES["kubernetes single"]) and not secrets_of(NODES["compose single"])
    for name in re.findall(r"^#LoadCredential=(\w+):/etc/stampede/secrets/(\w+)$", UNIT, re.M):
        assert name[0] == name[1] and name[0] in made
    assert set(re.findall(r"^#LoadCredential=(\w+)", UNIT, re.M)) >= secrets_of(several)


def test_compose_and_kubernetes_agree():
    assert NODES["compose node1"] == NODES["compose node2"]
    compose, kubernetes = settings(NODES["compose node1"]), settings(NODES["kubernetes several"])
    assert set(compose) | {"ledger_tls"} == set(kubernetes)
    places = {"proxies", "gate", "ledger", "ledger_tls"}
    assert {name: compose[name] for name in set(compose) - places} == {name: kubernetes[name] for name in set(kubernetes) - places}
    assert compose["ack"] == OPTIONS["ack"] == "ledger"


def test_compose_has_two_profiles_and_nothing_else():
    services = COMPOSE["services"]
    of = {profile: {name for name, each in services.items() if each["profiles"] == [profile]} for profile in ("single", "several")}
    assert of == {"single": {"single", "front-single"}, "several": {"node1", "node2", "front", "mariadb", "redis"}} and len(services) == 7
    for name, each in services.items():
        wanted = {volume.split(":")[0] for volume in each.get("volumes", []) if not volume.startswith(".")}
        assert wanted <= set(COMPOSE["volumes"]) and set(each["networks"]) <= set(COMPOSE["networks"]), name
        for other in each.get("depends_on", {}):
            assert services[other]["profiles"] == each["profiles"], (name, other)
        for volume in each.get("volumes", []):
            if volume.startswith("."):
                assert (DEPLOY / volume.split(":")[0]).exists(), volume
        for address in re.findall(r"(\w+):20080", str(each.get("environment", {}).get("NODES", ""))):
            assert address in each["depends_on"], (name, address)
    for name in ("single", "node1", "node2"):
        assert services[name]["volumes"] == [f"{name}:{DATA}"] and services[name]["read_only"] is True
        assert (DEPLOY / services[name]["build"]["context"] / services[name]["build"]["dockerfile"]).samefile(DEPLOY / "Dockerfile")
    subnet = COMPOSE["networks"]["shop"]["ipam"]["config"][0]["subnet"]
    assert {node["STAMPEDE_PROXIES"] for name, node in NODES.items() if name.startswith("compose")} == {subnet}
    addresses = [each["networks"]["shop"]["ipv4_address"] for each in services.values() if isinstance(each["networks"], dict)]
    assert len(set(addresses)) == 3 and all(address.rpartition(".")[0] == subnet.rpartition(".")[0] for address in addresses)
    assert re.match(r"redis://redis:6379$", NODES["compose node1"]["STAMPEDE_GATE"]) and "@mariadb/" in NODES["compose node1"]["STAMPEDE_LEDGER"]
    database = services["mariadb"]["environment"]
    assert NODES["compose node1"]["STAMPEDE_LEDGER"] == f"mysql://{database['MARIADB_USER']}@mariadb/{database['MARIADB_DATABASE']}"
    assert {services[name]["user"].split(":")[1] for name in ("mariadb", "redis")} == {str(USER)}, "the group that may read the secrets"


@pytest.mark.parametrize("file", ["single.yaml", "several.yaml"])
def test_pods_are_locked_down_and_asked_where_the_server_answers(file):
    spec, (container,) = pod(file), pod(file)["containers"]
    around = spec["securityContext"]
    assert around["runAsNonRoot"] is True and around["runAsUser"] == around["runAsGroup"] == around["fsGroup"] == USER
    assert spec["automountServiceAccountToken"] is False, "its token would be mounted among the secrets"
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert container["ports"] == [{"name": "http", "containerPort": PORT}]
    routes = {line.split()[1]: line.split()[2] for line in run("routes").out.splitlines() if line.startswith("GET ")}
    for probe, path in (("startupProbe", "/readyz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "http"} and routes[path] == "anyone", probe
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert mounts["data"] == DATA and mounts["tmp"] == "/tmp"
    workload = next(each for each in KUBERNETES[file] if each["kind"] in ("Deployment", "StatefulSet"))
    claims = {each["metadata"]["name"] for each in workload["spec"].get("volumeClaimTemplates", [])}
    assert set(mounts) == {each["name"] for each in spec["volumes"]} | claims
    assert ("data" in claims) == (file == "single.yaml"), "a journal must outlive its pod; a node of several has none"
    labels = workload["spec"]["template"]["metadata"]["labels"]
    selectors = [workload["spec"]["selector"]["matchLabels"], kind(file, "Service")["spec"]["selector"]]
    if file == "several.yaml":
        selectors.append(kind(file, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"])
    assert all(selector == labels for selector in selectors)
    assert container["envFrom"] == [{"configMapRef": {"name": kind(file, "ConfigMap")["metadata"]["name"]}}]
    assert kind(file, "Service")["spec"]["ports"][0]["targetPort"] == "http"
    assert spec["terminationGracePeriodSeconds"] * 1000 > int(OPTIONS["drain_ms_max"])


def test_files_that_are_named_are_there():
    texts = [path for path in DEPLOY.rglob("*") if path.is_file() and "secrets" not in path.parts] + PROFILES
    for path in texts:
        for named in re.findall(r"(?<![\w/.-])((?:deploy|conf|docs|tools|tests)/[\w./-]*\w)", path.read_text()):
            assert (ROOT / named).exists() or named == "deploy/secrets" or named == "deploy/stampede", f"{path.name} names {named}"


def make_secrets(folder):
    """As deploy/make-secrets makes them, for ourselves and not for a container."""
    where = folder / "secrets"
    subprocess.run([DEPLOY / "make-secrets", where, "localhost"], check=True, capture_output=True, timeout=60)
    for path in where.iterdir():
        os.chown(path, os.getuid(), os.getgid())
        path.chmod(0o400)
    return where


def test_a_server_runs_with_the_secrets_that_are_made(tmp_path, own_server):
    where = make_secrets(tmp_path)
    before = {path.name: path.read_bytes() for path in where.iterdir()}
    assert len(before["ledger_password"]) > 32 and before["ledger_password"] != before["redis_password"]
    server = own_server("--keys", "keys", "--payment-keys", "payment_keys", "--tls-key", "tls_key", "--tls-cert", where / "tls_cert",
                        env={"CREDENTIALS_DIRECTORY": str(where)})
    assert run("health", "--http", f"127.0.0.1:{server.port}", "--tls-cert", where / "tls_cert", "--tls-key", where / "tls_key").code == 0
    server.stop()
    make_secrets(tmp_path)
    assert {path.name: path.read_bytes() for path in where.iterdir()} == before, "what is there stays"


def shell_of(service, **replaced):
    """The command of a service as Docker would run it, with other places."""
    shell, flags, script = COMPOSE["services"][service]["command"]
    script = script.replace("$$", "$")
    for old, new in replaced.values():
        assert old in script, old
        script = script.replace(old, str(new))
    return [shell, flags, script]


def test_the_redis_of_compose_starts_with_its_password_and_evicts_nothing(tmp_path):
    where = make_secrets(tmp_path)
    port = free_port()
    command = shell_of("redis", secret=(SECRETS, where), data=("dir /data", f"dir {tmp_path}\nport {port}\nbind 127.0.0.1"))
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=end_with_parent)
    password = (where / "redis_password").read_text().strip()
    asked = COMPOSE["services"]["redis"]["healthcheck"]["test"][1].replace("$$", "$").replace(SECRETS, str(where)).replace("redis-cli", f"redis-cli -p {port}")

    def ask(*words, auth=password):
        return subprocess.run(["redis-cli", "-p", str(port), *words], env={**os.environ, "REDISCLI_AUTH": auth}, capture_output=True, text=True, timeout=10).stdout
    try:
        eventually(lambda: subprocess.run(["sh", "-c", asked], capture_output=True, timeout=10).returncode == 0, 30)
        assert "noeviction" in ask("CONFIG", "GET", "maxmemory-policy") and "yes" in ask("CONFIG", "GET", "appendonly")
        assert "NOAUTH" in ask("PING", auth="") and password not in pathlib.Path(f"/proc/{process.pid}/cmdline").read_text()
    finally:
        process.terminate()
        process.wait(30)


def test_a_server_runs_on_a_mariadb_with_the_settings_of_compose(own_server):
    flags = COMPOSE["services"]["mariadb"]["command"]
    with MariaDB(*flags) as db:
        # Its user has what the image of MariaDB gives: everything in one database.
        db.do("CREATE DATABASE stampede", "CREATE USER stampede@'%' IDENTIFIED BY 'a b'", "GRANT ALL ON stampede.* TO stampede@'%'")
        server = own_server("--ledger", f"mysql://stampede@127.0.0.1:{db.port}/stampede", env={"STAMPEDE_LEDGER_PASSWORD": "a b"})
        shop = Shop(server)
        assert shop.win(shop.sale()["id"], "ann")["state"] == "paid"
        shop.close()
        server.stop()


@pytest.mark.parametrize("service", ["front", "front-single"])
def test_the_nginx_of_compose_takes_its_file(service, tmp_path):
    where = make_secrets(tmp_path)
    around = COMPOSE["services"][service]["environment"]
    nodes = re.sub(r"(single|node\d):", "127.0.0.1:", around["NODES"])
    command = shell_of(service, conf=("/etc/stampede/nginx.conf", DEPLOY / "nginx.conf"), out=("> /tmp/nginx.conf", f"> {tmp_path}/nginx.conf"), secret=(SECRETS, where),
                       run=("exec nginx -c /tmp/nginx.conf -g 'daemon off;'", ":"))
    subprocess.run(command, env={**os.environ, "NODES": nodes, "SHOP": around["SHOP"]}, check=True, timeout=30)
    text = (tmp_path / "nginx.conf").read_text()
    upstream = re.search(r"upstream stampede \{.*?\n    \}", text, re.S).group(0)
    assert len(re.findall(r"(?<!\")server 127\.0\.0\.1:20080 fail_timeout=3s;", upstream)) == len(nodes.split()) and "server_name localhost;" in text
    assert not re.search(r"^[^#]*SHOP\.EXAMPLE", text, re.M)
    # Where nobody else writes; this is not about the paths.
    text = text.replace("/var/log/nginx", str(tmp_path)).replace("/run/nginx.pid", f"{tmp_path}/pid")
    (tmp_path / "nginx.conf").write_text(text)
    done = subprocess.run([program("nginx"), "-t", "-c", tmp_path / "nginx.conf"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 or "bind()" in done.stderr, done.stderr


def test_the_unit_is_one_that_systemd_understands(tmp_path):
    unit = re.sub(r"^#(LoadCredential=)", r"\1", UNIT, flags=re.M)
    assert "ExecStart=/usr/bin/stampede serve --config /etc/stampede/stampede.conf --data /var/lib/stampede\n" in unit
    path = tmp_path / "stampede.service"
    path.write_text(unit.replace("/usr/bin/stampede", BINARY).replace("file:/usr/share/doc", f"file:{tmp_path}"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True, timeout=60, env={**environment(), "SYSTEMD_LOG_LEVEL": "warning"})
    said = [line for line in done.stderr.splitlines() if "stampede" in line]
    assert done.returncode == 0 and not said, done.stderr
    assert "\nStartLimitIntervalSec=0\n" in unit, "with systemd's own limit it would give up after five tries, in as many seconds"
    for flag in re.findall(r"--([a-z-]+) ", unit[unit.index("ExecStart="):unit.index("ExecReload=")]):
        assert flag == "config" or flag.replace("-", "_") in OPTIONS, flag


def test_the_credentials_of_the_unit_are_read_as_systemd_gives_them(tmp_path, own_server):
    """Another's file, readable through a group: what fchmod and an ACL of systemd come to. As root both can be made."""
    where = make_secrets(tmp_path)
    if os.getuid() == 0:
        for path in where.iterdir():
            os.chown(path, USER, 0)
            path.chmod(0o440)
    own_server("--keys", "keys", "--payment-keys", "payment_keys", env={"CREDENTIALS_DIRECTORY": str(where)})
    assert keys_of(where)


def test_ports_of_nginx_and_of_the_image_are_the_default_one():
    assert f"server 127.0.0.1:{PORT} fail_timeout=3s;" in (DEPLOY / "nginx.conf").read_text()
    for service in COMPOSE["services"].values():
        for node in service.get("environment", {}).get("NODES", "").split():
            assert node.endswith(f":{PORT}")
