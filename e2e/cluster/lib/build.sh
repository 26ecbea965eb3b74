# shellcheck shell=bash
# How each part is built. Every part has a Go module of its own in this room
# (their dependencies disagree), and go.sum pins the bytes of each.

# What `up` needs; the rest is built when it is asked for by name.
NEEDED_PARTS=(kit containerd runc kube-router coredns helm kube)

# NAME_of sets: dir (module), packages, cgo, tags, version variables (-X), and
# extra names that the program is called by.
part_of() {
	dir=$ROOM/mods/$1 packages=() cgo=0 tags='' variables=() names=()
	local version
	case $1 in
	kube)
		dir=$ROOM/kube packages=(./cmd/kube k8s.io/kubernetes/cmd/kubectl)
		names=(etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy local-provisioner)
		version=$(pinned k8s.io/kubernetes)
		# kubectl compares versions and fails on an empty one.
		local variable
		for variable in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
			variables+=("$variable.gitVersion=$version" "$variable.gitMajor=1" "$variable.gitMinor=$(cut -d. -f2 <<<"$version")")
		done
		;;
	kit)
		dir=$ROOM/kit packages=(.)
		;;
	containerd)
		local name
		for name in containerd containerd-shim-runc-v2 ctr; do
			packages+=("github.com/containerd/containerd/v2/cmd/$name")
		done
		tags='no_btrfs no_devmapper no_zfs'
		variables=("github.com/containerd/containerd/v2/version.Version=$(pinned github.com/containerd/containerd/v2)")
		;;
	runc)
		packages=(github.com/opencontainers/runc)
		# Seccomp needs the C library: RuntimeDefault profiles are part of what
		# the tests prove.
		cgo=1 tags=seccomp
		;;
	kube-router)
		packages=(github.com/cloudnativelabs/kube-router/v2/cmd/kube-router)
		variables=("github.com/cloudnativelabs/kube-router/v2/pkg/version.Version=$(pinned github.com/cloudnativelabs/kube-router/v2)")
		;;
	coredns)
		packages=(.)
		;;
	helm)
		packages=(helm.sh/helm/v3/cmd/helm)
		variables=("helm.sh/helm/v3/internal/version.version=$(pinned helm.sh/helm/v3)")
		;;
	agent-sandbox)
		packages=(sigs.k8s.io/agent-sandbox/cmd/agent-sandbox-controller)
		;;
	*) die "there is no part $1; known: ${NEEDED_PARTS[*]} agent-sandbox" ;;
	esac
}

# The version that the module in $dir pins.
pinned() { awk -v module="$1" '$1 == module { print $2; exit } $1 == "require" && $2 == module { print $3; exit }' "$dir/go.mod"; }

build_part() {
	local dir packages cgo tags variables names flags='-s -w' variable stamp file
	part_of "$1"
	for variable in "${variables[@]}"; do flags+=" -X $variable"; done
	stamp=$({
		go version
		echo "${packages[*]} $cgo $tags $flags"
		find "$dir" -type f \( -name '*.go' -o -name 'go.*' \) ! -name '*_test.go' | sort | xargs cat
	} | sha256sum)
	file=$BIN/.stamps/$1
	mkdir -p "$BIN/.stamps"
	if [[ -e $file && $stamp = "$(<"$file")" ]]; then return; fi
	rm -f "$file"

	local began=$SECONDS new=$BIN/.new-$1
	say "building $1"
	# To a folder beside the target: a running program's file cannot be written
	# to, but it can be replaced.
	rm -rf "$new" && mkdir -p "$new"
	(cd "$dir" && CGO_ENABLED=$cgo GOFLAGS='-mod=readonly -trimpath -buildvcs=false' \
		go build -tags "$tags" -ldflags "$flags" -o "$new/" "${packages[@]}") || die "$1 does not build"
	mv -f "$new"/* "$BIN/"
	rmdir "$new"
	local name
	for name in "${names[@]}"; do ln -sfn "$1" "$BIN/$name"; done
	echo "$stamp" >"$file"
	say "built $1 in $((SECONDS - began)) s"
}
