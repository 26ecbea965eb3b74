# shellcheck shell=bash
# How each part is built. Every part has a Go module of its own in this room
# (their dependencies disagree), and go.sum pins the bytes of each.

# What `up` needs; the rest is built when it is asked for by name.
NEEDED_PARTS=(kit containerd runc kube-router coredns helm kube)

# part_of NAME sets: dir (our module), packages, cgo, tags, version variables (-X),
# extra names that the program is called by, and the module that our patch is for.
part_of() {
	dir=$ROOM/mods/$1 packages=() cgo=0 tags='' variables=() names=() patched=''
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
		patched=github.com/cloudnativelabs/kube-router/v2
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
	local dir packages cgo tags variables names patched flags='-s -w' variable stamp file
	part_of "$1"
	for variable in "${variables[@]}"; do flags+=" -X $variable"; done
	stamp=$({
		go version
		echo "${packages[*]} $cgo $tags $flags"
		find "$dir" -type f \( -name '*.go' -o -name 'go.*' -o -name '*.patch' \) ! -name '*_test.go' | sort | xargs cat
	} | sha256sum)
	file=$BIN/.stamps/$1
	mkdir -p "$BIN/.stamps"
	if [[ -e $file && $stamp = "$(<"$file")" ]]; then return; fi
	rm -f "$file"

	local began=$SECONDS new=$BIN/.new-$1
	say "building $1"
	# To a folder beside the target: a running program's file cannot be written
	# to, but it can be replaced.
	rm -rf "$new" "$new.source" && mkdir -p "$new" "$new.source"
	local modfile=()
	if [[ $patched ]]; then
		patch_module "$patched" "$new.source"
		modfile=(-modfile "$new.source/go.mod")
	fi
	(cd "$dir" && CGO_ENABLED=$cgo GOFLAGS='-mod=readonly -trimpath -buildvcs=false' \
		go build "${modfile[@]}" -tags "$tags" -ldflags "$flags" -o "$new/" "${packages[@]}") || die "$1 does not build"
	mv -f "$new"/* "$BIN/"
	rm -rf "$new" "$new.source"
	local name
	for name in "${names[@]}"; do ln -sfn "$1" "$BIN/$name"; done
	echo "$stamp" >"$file"
	say "built $1 in $((SECONDS - began)) s"
}

# Builds with a patched copy of a module. What is downloaded and copied is still
# what go.sum pins.
patch_module() {
	local source
	source=$(cd "$dir" && go mod download "$1" && go list -m -f '{{.Dir}}' "$1")
	cp -r "$source" "$2/patched"
	chmod -R u+w "$2/patched"
	patch --quiet -d "$2/patched" -p1 <"$(echo "$dir"/*.patch)" || die "a patch in $dir does not apply"
	cp "$dir/go.mod" "$dir/go.sum" "$2"
	(cd "$2" && go mod edit -replace "$1=$2/patched")
}
