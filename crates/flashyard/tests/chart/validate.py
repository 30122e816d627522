"""Checks objects of Kubernetes, which standard input has as YAML, by the schemas of VERSION.

    validate.py VERSION DEFINITIONS

Objects of other APIs are checked by the CustomResourceDefinitions in the folder DEFINITIONS. Fields
that a schema does not have are refused. Prints what was checked, a line each.
"""

import pathlib
import sys

import jsonschema
import kubernetes_validate
import yaml


def strict(schema):
    """The schema, of which no object has other fields."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: strict(part) for key, part in schema.items()}
    if "properties" in schema and "x-kubernetes-preserve-unknown-fields" not in schema:
        schema.setdefault("additionalProperties", False)
    return schema


def definitions(folder):
    """The schema of each version of each kind."""
    found = {}
    for path in pathlib.Path(folder).glob("*_*.yaml"):
        spec = yaml.safe_load(path.read_text())["spec"]
        for version in spec["versions"]:
            name = f"{spec['group']}/{version['name']}"
            schema = strict(version["schema"]["openAPIV3Schema"])
            # Every object has these, and the API server checks them by itself.
            schema["properties"]["metadata"] = {"type": "object", "required": ["name"]}
            found[name, spec["names"]["kind"]] = schema
    return found


def main():
    version, folder = sys.argv[1:]
    custom = definitions(folder)
    for found in yaml.safe_load_all(sys.stdin):
        if found is None:
            continue
        kind, name = (found["apiVersion"], found["kind"]), found["metadata"]["name"]
        try:
            if kind in custom:
                jsonschema.validate(found, custom[kind])
            else:
                kubernetes_validate.validate(found, version, strict=True)
        except kubernetes_validate.SchemaNotFoundError as error:
            sys.exit(error.message)
        except jsonschema.ValidationError as error:
            where = ".".join(str(part) for part in error.path)
            sys.exit(f"{kind[1]} {name}: {where}: {error.message}")
        print(kind[1], name)


main()
