# SPDX-License-Identifier: Apache-2.0
"""What the API server wants of a custom resource's schema beyond OpenAPI:
that it is structural, and that what names fields names those that are there.
"""
import re

SCALARS = {"string", "integer", "number", "boolean"}


def _bounds(node, where, problems):
    for low, high in (("minimum", "maximum"), ("minLength", "maxLength"),
                      ("minItems", "maxItems"), ("minProperties", "maxProperties")):
        if low in node and high in node and node[low] > node[high]:
            problems.append(f"{where}: {low} is more than {high}")
    for kind, keys in (("string", {"pattern", "minLength", "maxLength"}),
                       ("array", {"items", "minItems", "maxItems"}),
                       ("object", {"properties", "required", "maxProperties"})):
        wrong = keys & set(node) if node.get("type") != kind else set()
        if wrong:
            problems.append(f"{where}: {', '.join(sorted(wrong))} of what is no {kind}")
    if "pattern" in node:
        try:
            re.compile(node["pattern"])
        except re.error as error:
            problems.append(f"{where}: pattern: {error}")
    for word in node.get("enum", []):
        if node.get("type") == "string" and not isinstance(word, str):
            problems.append(f"{where}: {word!r} of its enum is no string")


def _list(node, where, problems):
    if "items" not in node:
        problems.append(f"{where}: an array without items")
        return
    if "maxItems" not in node:
        problems.append(f"{where}: an array without a bound")
    item = node["items"]
    if node.get("x-kubernetes-list-type") != "map":
        return
    for key in node.get("x-kubernetes-list-map-keys") or [None]:
        if key not in item.get("properties", {}):
            problems.append(f"{where}: list map key {key!r} is no property of an item")
        elif key not in item.get("required", []) and "default" not in item["properties"][key]:
            problems.append(f"{where}: list map key {key!r} is not required")


def _node(node, where, problems):
    if "$ref" in node:
        problems.append(f"{where}: $ref")
    kind = node.get("type")
    if kind not in SCALARS | {"object", "array"} and not node.get("x-kubernetes-int-or-string"):
        problems.append(f"{where}: not structural: type is {kind!r}")
        return
    _bounds(node, where, problems)
    if kind == "string" and not {"enum", "maxLength", "format", "pattern"} & set(node):
        problems.append(f"{where}: a string without a bound")
    if kind == "array":
        _list(node, where, problems)
        if "items" in node:
            _node(node["items"], where + "[]", problems)
    if "properties" in node and "additionalProperties" in node:
        problems.append(f"{where}: both properties and additionalProperties")
    for name in node.get("required", []):
        if name not in node.get("properties", {}):
            problems.append(f"{where}: requires {name!r}, which is no property")
    for name, child in node.get("properties", {}).items():
        _node(child, f"{where}.{name}", problems)
    if isinstance(node.get("additionalProperties"), dict):
        _node(node["additionalProperties"], where + ".*", problems)


def _column(column, schema, where, problems):
    path = re.sub(r"\[[^]]*\]", "[]", column["jsonPath"])
    node = schema
    for step in path.lstrip(".").split("."):
        name, brackets = step.rstrip("[]"), step.endswith("[]")
        if node is schema and name == "metadata":
            return
        node = node.get("properties", {}).get(name)
        if node is not None and brackets:
            node = node.get("items")
        if node is None:
            problems.append(f"{where}: column {column['name']}: {column['jsonPath']} is nowhere")
            return


def check(thing, where, problems):
    spec = thing["spec"]
    names = spec["names"]
    if thing["metadata"]["name"] != f"{names['plural']}.{spec['group']}":
        problems.append(f"{where}: its name is not {names['plural']}.{spec['group']}")
    if sum(bool(v.get("storage")) for v in spec["versions"]) != 1:
        problems.append(f"{where}: not exactly one version is stored")
    for version in spec["versions"]:
        at = f"{where} {version['name']}"
        schema = version.get("schema", {}).get("openAPIV3Schema")
        if not schema or schema.get("type") != "object":
            problems.append(f"{at}: no schema of an object")
            continue
        for name in ("apiVersion", "kind", "metadata"):  # the server's own
            if set(schema["properties"].get(name, {})) - {"type"}:
                problems.append(f"{at}: says more of {name} than its type")
        for name, child in schema["properties"].items():
            if name not in ("apiVersion", "kind", "metadata"):
                _node(child, f"{at} .{name}", problems)
        if "status" in schema["properties"] and "status" not in version.get("subresources", {}):
            problems.append(f"{at}: a status that is no subresource")
        for column in version.get("additionalPrinterColumns", []):
            _column(column, schema, at, problems)
