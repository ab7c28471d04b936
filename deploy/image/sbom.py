#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is in the image, as SPDX 2.3: sbom.py VERSION COMMIT SECONDS <NAMES-OF-DEBIAN-PACKAGES"""
import datetime
import json
import subprocess
import sys

version, commit, seconds = sys.argv[1:]


def package(name, number, locator):
    reference = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator}
    unknown = ("downloadLocation", "licenseConcluded", "licenseDeclared", "copyrightText")
    return {"SPDXID": "SPDXRef-" + name.replace("+", "-"), "name": name, "versionInfo": number, "filesAnalyzed": False,
            **{key: "NOASSERTION" for key in unknown}, "externalRefs": [reference]}


def installed(name):
    return subprocess.run(["dpkg-query", "-W", "-f=${Version}\n", name], capture_output=True, text=True,
                          check=True).stdout.split()[0]


packages = [package("slime", version, f"pkg:generic/slime@{version}?vcs_url=git%2B{commit}")]
for name in sorted(set(sys.stdin.read().split())):
    packages.append(package(name, installed(name), f"pkg:deb/debian/{name}@{installed(name)}"))
created = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
json.dump({
    "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"slime-{version}",
    "documentNamespace": f"https://spdx.org/spdxdocs/slime-{version}-{commit}",
    "creationInfo": {"created": created, "creators": ["Organization: slime"]},
    "packages": packages,
    "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relatedSpdxElement": p["SPDXID"],
                       "relationshipType": "DESCRIBES"} for p in packages],
}, sys.stdout, indent=1)
print()
