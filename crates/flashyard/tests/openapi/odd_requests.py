"""Requests of every operation that the description has, about few objects, with odd values.

    odd_requests.py URL TOKEN SEED REQUESTS SCRATCH

The objects have few names, so that requests meet what earlier ones made. Ends with 1 at the first
answer that is a fault of the node or that is not described, and prints the request.
"""

import http.client
import json
import random
import sys
import urllib.parse
import urllib.request

URL, TOKEN, SEED, REQUESTS, SCRATCH = sys.argv[1:]
chance = random.Random(int(SEED))
document = json.load(urllib.request.urlopen(URL + "/openapi.json"))

NAMES = {
    "drives": ["m0", "m1", "m2", "m3", "e0", "d0", "x"],
    "pools": ["pool", "p", "q"],
    "volumes": ["demo", "v", "w", "u"],
    "snapshots": ["s", "r"],
    "hosts": ["h", "g", "any"],
    "tenants": ["t"],
    "tokens": ["k", "l"],
    "jobs": ["1", "2", "99"],
    "ports": ["1", "2"],
    "profiles": ["cm7-r-7.68", "xd6-3.84", "none"],
}
OF_PROPERTY = {
    "drive": "drives", "drives": "drives", "pool": "pools", "volume": "volumes",
    "snapshot": "snapshots", "host": "hosts", "hosts": "hosts", "tenant": "tenants",
    "subsystem": "volumes", "nsid": "jobs",
}
NUMBERS = [0, 1, -1, 2, 3, 32, 33, 100, 255, 256, 512, 1000, 1001, 4095, 4096, 4097, 65536,
           1 << 20, 1 << 24, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, 1 << 50, 1 << 52, 1 << 53,
           1 << 62, 1 << 63, (1 << 64) - 1, 1 << 64]
SIZES = [0, 1, 4096, 4097, 16 << 20, "16MiB", "1GB", "4PiB", "1PiB", 1 << 52, 1 << 62, 1 << 63,
         (1 << 64) - 1, "99999999TiB", "-1", "", "1.5KiB"]
TEXTS = ["", "a", "A", "\u0000", "\n", "\u00e9" * 300, "x" * 5000, "nqn.2014-08.org.example:h",
         "nqn.2014-08.org.nvmexpress:uuid:07e4a0a6-41d5-4bff-96b2-8a173dcfb6b5", "DHHC-1:00:AAAA:",
         "2030-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z", "127.0.0.1:9"]
# What the others are tried out beside, and has to serve to the end.
KEPT = ["demo", "pool", "d0", "admin"]


def resolved(schema):
    while "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        kind = schema["$ref"].split("/")[2]
        schema = document["components"][kind][name]
        schema = dict(schema, name=name)
    return schema


def name_for(word):
    kind = OF_PROPERTY.get(word, word)
    if chance.random() < 0.05:
        return chance.choice(["x" * 64, "A", "..", "", "p/s", "%00"])
    return chance.choice(NAMES.get(kind, ["a", "b"]))


def value(schema, word, depth=0):
    schema = resolved(schema)
    if chance.random() < 0.04:
        return chance.choice([None, [], {}, True, 1.5, "x", [[[]]], NUMBERS[-1]])
    if schema.get("name") in ("Name", "SnapshotName"):
        return name_for(word)
    if schema.get("name") == "Size":
        return chance.choice(SIZES)
    if "enum" in schema:
        return chance.choice(schema["enum"] + ["other"] * (chance.random() < 0.1))
    if "oneOf" in schema:
        return value(chance.choice(schema["oneOf"]), word, depth)
    kind = schema.get("type", "string")
    kind = chance.choice(kind) if isinstance(kind, list) else kind
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return {name_for("volumes"): value(schema["additionalProperties"], word, depth + 1)}
    if kind == "object":
        return properties(schema, depth)
    if kind == "array":
        count = chance.choice([0, 1, 1, 2, 3, 4, 40])
        return [value(schema["items"], word, depth + 1) for _ in range(count)]
    if word == "scale_ppm":
        # Whole drives would take the memory of this machine.
        return chance.choice([0, 1, 100, 1000, 1000001, 1 << 32])
    if kind in ("integer", "number"):
        bounds = [schema.get("minimum", 1), schema.get("maximum", 1000), 100, 1000]
        return chance.choice(bounds if chance.random() < 0.6 else NUMBERS)
    return {"boolean": chance.random() < 0.5, "null": None}.get(kind, text(word))


def text(word):
    if word in ("path", "directory"):
        return SCRATCH + "/" + chance.choice(["f0", "f1", "none/f", "x" * 300, "a\nb"])
    if word == "profile":
        return chance.choice(NAMES["profiles"] + [SCRATCH + "/none", "x" * 3000])
    if word in ("address", "prefix"):
        return chance.choice(["127.0.0.1:9", "", "h" * 300 + ":9", "127.0.0.1:0", "a.b"])
    return chance.choice(TEXTS)


def properties(schema, depth):
    required = schema.get("required", [])
    made = {}
    for word, of in schema.get("properties", {}).items():
        if word in required and chance.random() < 0.97 or chance.random() < 0.35:
            made[word] = value(of, word, depth + 1)
    if chance.random() < 0.03:
        made["other"] = 1
    return made


def request_of(method, path, operation):
    query = {}
    nouns = path.split("/")
    for parameter in operation.get("parameters", []):
        parameter = resolved(parameter)
        word = parameter["name"]
        if parameter["in"] == "path":
            noun = nouns[nouns.index("{" + word + "}") - 1]
            filled = urllib.parse.quote(str(name_for(noun)), safe="")
            path = path.replace("{" + word + "}", filled or "x")
        elif parameter["in"] == "query" and chance.random() < 0.3:
            query[word] = value(parameter["schema"], word)
    if chance.random() < 0.02:
        query["other"] = 1
    body = None
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        body = json.dumps(value(schema, "body"))
        if chance.random() < 0.02:
            body = body[: len(body) // 2]
    headers = {"Authorization": "Bearer " + TOKEN}
    for header in ("If-Match", "If-None-Match"):
        if chance.random() < 0.03:
            headers[header] = chance.choice(["*", '"0"', '"0123456789abcdef.0123456789abcdef"', ""])
    if query:
        path += "?" + urllib.parse.urlencode(query)
    return method.upper(), path, body, headers


def spares(method, path):
    """Whether what is kept stays."""
    words = urllib.parse.urlsplit(path).path.split("/")
    if method == "GET" or not any(kept in words for kept in KEPT):
        return True
    if words[2] == "pools" and words[3] == "pool":
        return words[4:] == ["scrub"] or words[4:5] == ["usage"]
    if words[2] == "volumes" and words[3] == "demo":
        return words[4:5] == ["limits"]
    return words[2] == "tenants" or words[2] == "pools" and words[3] != "pool" and "d0" not in words


operations = [
    (method, path, operation)
    for path, methods in document["paths"].items()
    for method, operation in methods.items()
]
# What others need is asked for more often.
often = {"create_volume": 6, "create_pool": 6, "create_snapshot": 4, "add_drive": 8, "add_host": 3}
weights = [often.get(operation["operationId"], 1) for _, _, operation in operations]
connection = http.client.HTTPConnection(urllib.parse.urlsplit(URL).netloc, timeout=120)
counted = {}
for number in range(int(REQUESTS)):
    method, path, operation = chance.choices(operations, weights)[0]
    asked = request_of(method, path, operation)
    if not spares(asked[0], asked[1]):
        continue
    try:
        connection.request(*asked)
        answer = connection.getresponse()
        said = answer.read().decode()
    except OSError as error:
        sys.exit(f"request {number} {asked}: {error}")
    status = str(answer.status)
    counted[status] = counted.get(status, 0) + 1
    # A name that is empty or has a slash leads to another route, or to none.
    known = status in operation["responses"] or status in ("404", "405")
    shaped = answer.status < 400 or set(json.loads(said)) >= {"code", "message"}
    if answer.status >= 500 or not known or not shaped:
        sys.exit(f"request {number} {asked} is answered with {status}: {said}")
# Hosts come to what is kept through a port that may have been made inaccessible.
path = json.dumps({"path": "optimized"})
connection.request("PATCH", "/v1/ports/1", path, {"Authorization": "Bearer " + TOKEN})
if connection.getresponse().status != 200:
    sys.exit("port 1 stays as it is")
print(counted)
