#!/bin/sh
# Print the home of a Java 17 or newer; where there is none, get one: from apt as root, else into .java of the checkout.
# $1 is the Python of the virtual environment. Never asks for a password.
set -eu
python=$1
say() { echo "$@" >&2; }

# The home of the java command $1, if it is new enough.
home_of() {
    told=$("$1" -XshowSettings:properties -version 2>&1) || return 1
    release=$(echo "$told" | sed -n 's/^ *java\.specification\.version = \([0-9]*\).*/\1/p')
    [ "${release:-0}" -ge 17 ] && echo "$told" | sed -n 's/^ *java\.home = //p'
}

find_java() {
    for java in "${JAVA_HOME:-/nowhere}/bin/java" java .java/*/bin/java .java/*/Contents/Home/bin/java; do
        if command -v "$java" >/dev/null && home_of "$java"; then return 0; fi
    done
    if [ -x /usr/libexec/java_home ] && mac=$(/usr/libexec/java_home -v 17+ 2>/dev/null); then
        if home_of "$mac/bin/java"; then return 0; fi
    fi
    for java in /usr/lib/jvm/*/bin/java /opt/homebrew/opt/openjdk*/bin/java /usr/local/opt/openjdk*/bin/java; do
        if [ -x "$java" ] && home_of "$java"; then return 0; fi
    done
    return 1
}

from_apt() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    say "no Java 17 or newer found: installing one with apt-get"
    apt-get update -qq >/dev/null || return 1
    for release in 21 17 25; do
        if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "openjdk-$release-jre-headless" \
            >/dev/null 2>&1; then return 0; fi
    done
    return 1
}

from_pip() {
    say "no Java 17 or newer found: downloading one into .java (package install-jdk)"
    "$python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt install-jdk || return 1
    if ! told=$("$python" -c "import jdk; jdk.install('21', jre=True, path='.java')" 2>&1); then
        say "$(echo "$told" | tail -n 1)" # of a stack trace, the reason
        return 1
    fi
}

find_java && exit 0
if from_apt && find_java; then exit 0; fi
if from_pip && find_java; then exit 0; fi
say "Spark needs Java 17 or newer; none was found and none could be installed here."
say "Debian, Ubuntu (as root): apt-get install openjdk-17-jre-headless; macOS: brew install openjdk; then try again,"
say "or point JAVA_HOME at one that you have."
exit 1
