# SPDX-License-Identifier: Apache-2.0
"""All checks of a set of objects."""
import crd
import rules
import schema


def problems_of(things, others):
    """What is wrong with things, which are complete together with others."""
    problems = []
    for thing in things:
        where = f"{thing.get('kind')} {thing.get('metadata', {}).get('name')}"
        schema.check(thing, where, problems)
        if thing.get("kind") == "CustomResourceDefinition" and not problems:
            crd.check(thing, where, problems)
    if not problems:  # the rules rely on the schema
        for rule in rules.CHECKS:
            rule(rules.Set(things + others), problems)
    return problems
