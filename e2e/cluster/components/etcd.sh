# shellcheck shell=bash
# Durable as in production (no --unsafe-no-fsync): tests kill it and expect
# every acknowledged object back.
start() {
	# A scratch database: small quota, and a history that is cut every few
	# minutes so that long benchmarks do not fill the disk.
	exec etcd --name "$NODE" --data-dir "$STATE/etcd" \
		--listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
		--listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
		--initial-cluster "$NODE=http://127.0.0.1:2380" \
		--listen-metrics-urls http://127.0.0.1:2381 \
		--quota-backend-bytes 4294967296 --auto-compaction-mode periodic --auto-compaction-retention 5m \
		--log-level warn
}

healthy() { get http://127.0.0.1:2381/health; }
