# scripts/setup_packages.sh -- sourced: install_packages puts the Debian packages that are missing in place.

# What a build, its tests and the quickstart use. ccache only makes builds faster.
trainctl_packages=(g++ cmake strace ninja-build ccache pkg-config git python3 python3-jsonschema
  libfmt-dev libspdlog-dev nlohmann-json3-dev libcli11-dev catch2
  libdnnl-dev libopenmpi-dev openmpi-bin libhwloc-dev libxxhash-dev libssl-dev liburing-dev
  clang-format-14 bible-kjv bible-kjv-text)

install_packages() {
  local missing=() package status
  for package in "${trainctl_packages[@]}"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || status=""
    [ "$status" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if ! command -v apt-get >/dev/null; then
    echo "setup: this system has no apt-get; install by its own means: ${missing[*]}" >&2
    return 3
  fi
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "setup: neither root nor sudo; ask an administrator to install: ${missing[*]}" >&2
      return 3
    fi
    as_root=(sudo)
  fi
  echo "setup: installing ${missing[*]}" >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q >&2 &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
      "${missing[@]}" >&2
}
