"""Who judges a page: axe-core, for whoever cannot see it as others do; and names that are hoped to be read as something else."""

from npm import npm_modules

AXE = {"axe-core": "4.10.2"}
SERIOUS = {"serious", "critical"}
HOSTILE = [
    '<script>window.hurt = 1</script>',
    '"><img src=x onerror="window.hurt = 1">',
    "'; window.hurt = 1; //",
    "{{constructor.constructor('hurt = 1')()}} ${window.hurt = 1}",
    "\u202egnihtemos\u202c \u2066<svg onload=alert(1)>\u2069",
    "&lt;b&gt; </title><script>window.hurt = 1</script>",
    "W" * 64,
]


def axe_text():
    return (npm_modules(AXE) / "axe-core" / "axe.min.js").read_text()


def complaints(page, axe, rules=None):
    """What axe holds against the page as it stands: [(rule, how bad, element)]. rules: only these."""
    page.driver.execute_script(axe)
    options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
    found = page.driver.execute_async_script(
        "const [options, done] = arguments; axe.run(document, options).then((results) => done(results.violations), (error) => done(String(error)))", options)
    assert isinstance(found, list), found
    return [(rule["id"], rule["impact"], node["html"][:200]) for rule in found for node in rule["nodes"] if rule["impact"] in SERIOUS]
