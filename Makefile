# The everyday commands. The README's two need no make.

.PHONY: build test ci soak fmt

build:
	go build -trimpath -o relay ./cmd/relay

test:
	go test -race ./...

ci:
	bash .ci/run

fmt:
	go tool -modfile=tools/go.mod gofumpt -w .

# The full counts, about an hour; its output goes into docs/soak.md.
soak:
	bash .ci/soak
