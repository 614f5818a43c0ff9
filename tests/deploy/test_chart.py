"""The chart, without Helm: values against their schema, templates against the values, configurations loaded, command lines parsed.

Nothing here is Helm. ``filled`` only puts values where a template has nothing but a value; what stands under conditions is read, not run.
"""

import copy
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from isoline_server.config import load_settings
from support.commandline import refusal

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "isoline"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
TEMPLATES = {path.name: path.read_text(encoding="utf-8") for path in sorted((CHART / "templates").iterdir())}
GIVEN = {
    "region": "eu",
    "regions": ["eu", "us", "ap"],
    "leaderRegion": "eu",
    "otlpEndpoint": "http://collector:4317",
    "database": {"secretName": "database"},
    "apiKeys": [{"tenant": "acme", "sha256": "0" * 64, "scopes": ["runs:read"]}],
    "executor": {"workflows": "shop.workflows", "apiKeySecretName": "key"},
}


def with_values(**changes):
    values = copy.deepcopy(VALUES)
    for key, value in {**GIVEN, **changes}.items():
        values[key] = {**values[key], **value} if isinstance(values.get(key), dict) else value
    return values


def at(values, path):
    for name in path.split("."):
        values = values[name]
    return values


def filled(text, values):
    """``text`` with its plain values put in."""

    def put(match):
        shown = at(values, match["path"])
        shown = shown.upper() if match["upper"] else shown
        return json.dumps(shown) if match["quote"] else str(shown)

    text = text.replace('{{ include "isoline.name" . }}', "isoline-eu")
    return re.sub(r"\{\{ (?P<upper>upper )?\$?\.Values\.(?P<path>[\w.]+)(?P<quote> \| quote)? \}\}", put, text)


# --- values ---


def schema_errors(values, tmp_path):
    program = Path(sys.executable).with_name("check-jsonschema")
    if not program.exists():
        pytest.skip("check-jsonschema is not installed")
    (tmp_path / "values.json").write_text(json.dumps(values))
    done = subprocess.run(
        [program, "--schemafile", CHART / "values.schema.json", tmp_path / "values.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout if done.returncode else ""


def test_the_schema_is_one_and_takes_values_that_are_complete(tmp_path):
    assert schema_errors(with_values(), tmp_path) == ""
    assert schema_errors(with_values(executor={"enabled": False, "workflows": ""}), tmp_path) == ""


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"region": "us-east1"}, "region"),
        ({"regions": []}, "regions"),
        ({"apiKeys": []}, "apiKeys"),
        ({"apiKeys": [{"tenant": "acme", "sha256": "short"}]}, "sha256"),
        ({"database": {"secretName": ""}}, "secretName"),
        ({"image": {"tag": "latest"}}, "tag"),
        ({"executor": {"workflows": ""}}, "workflows"),
        ({"server": {"replica": 1}}, "replica"),
        ({"topology": "embedded"}, "topology"),
    ],
)
def test_the_schema_refuses_what_cannot_work(wrong, named, tmp_path):
    assert named in schema_errors(with_values(**wrong), tmp_path)


def test_values_that_must_be_given_are_missing_from_the_defaults(tmp_path):
    errors = schema_errors(VALUES, tmp_path)
    for name in ("region", "regions", "apiKeys", "secretName"):
        assert name in errors


def test_the_schema_knows_every_value_and_no_other():
    def names(values, prefix=""):
        for key, value in values.items():
            yield f"{prefix}{key}"
            if isinstance(value, dict) and value and key not in {"resources", "annotations", "nodeSelector"}:
                yield from names(value, f"{prefix}{key}.")

    def known(schema, prefix=""):
        for key, value in schema.get("properties", {}).items():
            yield f"{prefix}{key}"
            yield from known(value, f"{prefix}{key}.")

    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert set(known(schema)) - {"global"} == set(names(VALUES))


# --- templates ---


def actions(text):
    return re.findall(r"\{\{-?\s*(.*?)\s*-?\}\}", text, re.DOTALL)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_is_balanced_and_uses_values_that_exist(name):
    text = TEMPLATES[name]
    assert text.count("{{") == len(actions(text))
    depth = 0
    for action in actions(text):
        word = action.split()[0]
        depth += (word in {"if", "with", "range", "define"}) - (word == "end")
        assert depth >= 0, action
        for path in re.findall(r"\.Values\.([\w.]+)", action):
            at(VALUES, path)
    assert depth == 0


def test_every_value_is_used():
    text = "".join(TEMPLATES.values())
    used = set(re.findall(r"\.Values\.([\w.]+)", text))
    for key, value in VALUES.items():
        names = [f"{key}.{inner}" for inner in value] if isinstance(value, dict) else [key]
        assert set(names) <= used, set(names) - used


def test_every_helper_that_is_included_is_defined():
    text = "".join(TEMPLATES.values())
    assert set(re.findall(r'include "([\w.]+)"', text)) == set(re.findall(r'define "([\w.]+)"', text))


def test_every_pod_is_shut_in():
    for name in ("server.yaml", "executor.yaml", "migrate.yaml"):
        for part in (
            'include "isoline.podSecurity"',
            'include "isoline.containerSecurity"',
            "automountServiceAccountToken: false",
            "resources:",
        ):
            assert part in TEMPLATES[name], (name, part)
    helpers = TEMPLATES["_helpers.tpl"]
    for part in (
        "runAsNonRoot: true",
        "readOnlyRootFilesystem: true",
        "allowPrivilegeEscalation: false",
        "drop: [ALL]",
        "RuntimeDefault",
    ):
        assert part in helpers


def test_the_image_of_the_chart_is_that_of_the_project():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = (CHART.parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r'^version = "(.+)"$', project, re.MULTILINE)[1] == chart["appVersion"]
    assert "USER 10001:10001" in (CHART.parents[1] / "Dockerfile").read_text(encoding="utf-8")
    assert "runAsUser: 10001" in TEMPLATES["_helpers.tpl"]


# --- what the containers are given ---


def environment(name, values):
    """The plain variables of a template, and those from the database's Secret with a URL for each."""
    found = {}
    text = re.sub(
        r"\{\{- range \.Values\.regions \}\}\n(.*?)\s*\{\{- end \}\}",
        lambda block: "\n".join(
            filled(block[1].replace("upper .", "upper .Values.region"), {**values, "region": one})
            for one in values["regions"]
        ),
        TEMPLATES[name],
        flags=re.DOTALL,
    )
    for variable, line in re.findall(r"- name: (ISOLINE_.+)\n\s+(value.*)", text):
        value = line.partition(": ")[2]
        if line.startswith("valueFrom"):
            value = f"cockroachdb+psycopg://{re.search(r'key: ([a-z-]+)', line)[1]}@database/isoline"
        elif "toJson" in value:
            value = json.dumps(at(values, re.search(r"\.Values\.(\w+)", value)[1]))
        found[filled(variable, values)] = filled(value, values)
    return found


def configuration(values):
    """The template of isoline.toml, its one loop and its one condition carried out."""
    text = re.search(r'define "isoline\.toml" -\}\}\n(.*)\n\{\{- end -\}\}', TEMPLATES["_helpers.tpl"], re.DOTALL)[1]
    loop = re.search(r"\{\{- range \.Values\.regions \}\}\n(.*?)\{\{- end \}\}", text, re.DOTALL)
    text = text.replace(loop[0], "".join(loop[1].replace("{{ . }}", region) for region in values["regions"]))
    return filled(re.sub(r"\{\{- (if .*?|end) \}\}\n", "", text), values)


@pytest.mark.parametrize("topology", ["cockroach", "postgres"])
def test_a_server_takes_its_configuration(tmp_path, monkeypatch, topology):
    values = with_values(topology=topology, database={**GIVEN["database"], "replicaCounts": True})
    given = environment("server.yaml", values)
    assert given.pop("ISOLINE_CONFIG") == "/etc/isoline/isoline.toml"
    only_postgres = {name: given.pop(name) for name in ("ISOLINE_STANDBY_URLS", "ISOLINE_REGIONS__EU__REPLICA_COUNTS")}
    if topology == "postgres":  # the condition in the template
        given |= only_postgres | {"ISOLINE_STANDBY_URLS": json.dumps(["postgresql+psycopg://db-us/isoline"])}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "isoline.toml").write_text(configuration(values))
    settings = load_settings(tmp_path / "isoline.toml")
    assert settings.homes == ("ap", "eu", "us")
    assert settings.leader_url == "cockroachdb+psycopg://leader-url@database/isoline"
    assert settings.regions["eu"].local_url == "cockroachdb+psycopg://local-url@database/isoline"
    assert settings.regions["eu"].listen == "0.0.0.0:7100"
    assert settings.regions["us"].local_url is None
    assert settings.regions["eu"].replica_counts is (topology == "postgres")
    assert settings.standby_urls == (("postgresql+psycopg://db-us/isoline",) if topology == "postgres" else ())
    assert [(key.tenant, key.scopes) for key in settings.api_keys] == [("acme", ("runs:read",))]
    assert settings.otlp_endpoint == "http://collector:4317"


def test_the_migration_takes_its_environment_without_a_file(monkeypatch):
    for name, value in environment("migrate.yaml", with_values()).items():
        monkeypatch.setenv(name, value)
    settings = load_settings(None)
    assert (settings.topology, settings.homes) == ("cockroach", ("ap", "eu", "us"))
    assert settings.leader_url == "cockroachdb+psycopg://owner-url@database/isoline"


@pytest.mark.parametrize("name", ["server.yaml", "executor.yaml", "migrate.yaml"])
def test_a_command_line_is_one_of_the_program(name):
    text = filled(TEMPLATES[name], with_values())
    arguments = yaml.safe_load(re.search(r"args:((?: \[.*\])|(?:\n\s+- .*)+)", text)[1])
    assert "{{" not in "".join(arguments)
    assert refusal(arguments) is None
