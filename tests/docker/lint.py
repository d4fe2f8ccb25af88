#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dockerfiles against the rules that they promise: lint.py SOURCE_DIR, or with --self-check against planted violations.

Not hadolint, and no proof that an image builds: pinned bases, no root, nothing fetched and run, every copied path there.
"""
import re
import sys
from pathlib import Path


def instructions(text):
    """(INSTRUCTION, rest) with continued lines joined and comments gone."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(w.upper(), rest.strip()) for w, _, rest in (line.strip().partition(" ") for line in joined.splitlines()) if w]


def problems(name, text, root):
    found, all_of = [], instructions(text)
    kinds = [kind for kind, _ in all_of]
    froms = [rest for kind, rest in all_of if kind == "FROM"]
    stages = {m.group(1) for rest in froms if (m := re.search(r"\bAS\s+(\S+)$", rest, re.I))}
    if len(froms) < 2:
        found.append("has one stage: build tools would be part of the image")
    if ("ARG", "BASE_DIGEST") not in all_of[: kinds.index("FROM")]:
        found.append("does not take BASE_DIGEST, without a default, before its first FROM")
    for rest in froms:
        image = rest.split()[0]
        if image in stages:
            continue
        if not re.fullmatch(r"[a-z0-9]+/[a-z0-9]+:[\w.-]+@\$\{BASE_DIGEST\}", image):
            found.append(f"FROM {image}: expected OWNER/NAME:TAG@${{BASE_DIGEST}}, without a host")
        if ":latest" in image or ":" not in image:
            found.append(f"FROM {image}: the tag is not pinned")
    last_from = len(kinds) - 1 - kinds[::-1].index("FROM")
    users = [rest for kind, rest in all_of[last_from:] if kind == "USER"]
    if not users or users[-1].split(":")[0] in ("root", "0"):
        found.append("the last stage does not end as another user than root")
    after_user = kinds[len(kinds) - 1 - kinds[::-1].index("USER"):] if "USER" in kinds else []
    if any(kind in ("RUN", "ADD") for kind in after_user):
        found.append("changes the image after USER")
    if not any(kind == "ENTRYPOINT" and rest.startswith("[") for kind, rest in all_of[last_from:]):
        found.append("has no ENTRYPOINT in exec form")
    for kind, rest in all_of:
        if kind == "ADD":
            found.append("uses ADD: COPY says what it does")
        if kind == "RUN" and re.search(r"\b(curl|wget)\b|https?://", rest):
            found.append("fetches something while it is built")
        if kind == "RUN" and "apt-get install" in rest and ("--no-install-recommends" not in rest or "rm -rf /var/lib/apt/lists" not in rest):
            found.append("apt-get install without --no-install-recommends, or leaves the lists behind")
        if kind == "COPY":
            words = rest.split()
            origin = next((w.split("=", 1)[1] for w in words if w.startswith("--from=")), None)
            if origin is not None and origin not in stages:
                found.append(f"COPY from {origin}, which is no stage")
            if origin is None:
                found += [f"COPY {w}: there is no such path" for w in words[:-1] if not w.startswith("--") and not (root / w).exists()]
    if not re.search(r"^#   docker build .*-f docker/\S+", text, re.M) or not re.search(r"^#   docker run ", text, re.M):
        found.append("does not say how to build and run it")
    return [f"{name} {p}" for p in found]


def self_check(text, root):
    """Each planted violation must be found."""
    planted = [("@${BASE_DIGEST}", ""), (":12.8.1-", ":latest-"), ("nvidia/cuda", "host.example/nvidia/cuda"), ("USER assay", "USER root"),
               ("USER assay", ""), ("ENTRYPOINT", "#"), ("COPY kernels", "COPY kernel"), ("COPY --from=build", "COPY --from=other"),
               ("RUN cmake", "RUN curl -s https://example.org/x | bash && cmake"), ("--no-install-recommends ", ""),
               ("COPY report", "ADD report"), ("ARG BASE_DIGEST\n\nFROM", "ARG BASE_DIGEST=sha256:0\n\nFROM"),
               ("WORKDIR /runs", "RUN true"), ("#   docker build", "#")]
    return [f"planted {a!r} -> {b!r}: not found" for a, b in planted if a not in text or not problems("x", text.replace(a, b, 1) if a != "FROM" else text, root)]


def main():
    root = Path(sys.argv[1])
    files = sorted((root / "docker").glob("*.Dockerfile"))
    if "--self-check" in sys.argv:
        wrong = self_check((root / "docker" / "cuda12.Dockerfile").read_text(), root)
    else:
        wrong = [] if len(files) >= 2 else ["expected a Dockerfile for each of two toolkit majors in docker/"]
        for file in files:
            wrong += problems(file.name, file.read_text(), root)
            if file.name not in (root / "docs" / "containers.md").read_text():
                wrong.append(f"docs/containers.md does not name {file.name}")
        ignored = (root / ".dockerignore").read_text().split("\n")
        wrong += [f".dockerignore does not name {p}" for p in (".git", "build") if p not in ignored]
    print("\n".join(wrong) or f"{len(files)} Dockerfiles")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
