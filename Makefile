.DEFAULT_GOAL := help
.PHONY: help dev test check build sbom release golden bench growth books microbench fuzz fuzz-api contract clients

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | sort

dev: ## run the service with the sandbox model on 127.0.0.1:8080
	go run ./cmd/stoa serve

test: ## the tests, as the README says
	go test ./...

check: ## everything that CI checks
	.ci/check

# The version is the tag; between tags it is what the Go tool records.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null)
BINARY ?= stoa
DIST ?= dist

build: ## the release: one static file, ./stoa
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w $(if $(VERSION),-X stoa/internal/faces/cli.linked=$(VERSION))" -o $(BINARY) ./cmd/stoa

sbom: build ## the bill of materials of ./stoa: stoa.cdx.json
	go run -C tools ./sbom $(abspath $(BINARY)) > stoa.cdx.json

release: ## archives for six systems, an image for two processors, an install script, checksums, bills of materials, a Homebrew formula, signatures: make release VERSION=v1.2.3 [URL=where they will be]
	temp=$$(mktemp -d) && .ci/build "$$temp" && rm -rf "$$temp"
	go run -C tools ./release -version "$(VERSION)" -out $(abspath $(DIST)) $(if $(URL),-url $(URL))
	IMAGE="$(IMAGE)" CHART="$(CHART)" .ci/sign $(DIST)

golden: ## rewrite the expected parts of the vendor fixtures; read the diff
	go test ./internal/models/wire -update

contract: ## generate types and server from the OpenAPI document
	go generate ./internal/base/contract

clients: ## the official clients against a live server
	cd e2e/openai-go && go test ./...
	cd e2e/stripe-go && go test ./...
	go test ./e2e -run OfficialJavaScript -v

bench: ## the cost of a call, compared with Go's ReverseProxy; FLAGS=-help lists the flags
	CGO_ENABLED=0 go run -C e2e/bench -trimpath . $(FLAGS)

growth: ## what ten times the charges, sessions and accounts cost
	go test -run '^$$' -bench Growth -benchtime 1x -timeout 2h ./e2e

books: ## the failure test of the books, of this tree on SQLite; ADAPTER=FILE for another gateway, FLAGS=-help lists the flags
	go run -C e2e/books . -adapter $(if $(ADAPTER),$(abspath $(ADAPTER)),adapters/stoa-sqlite.json) $(FLAGS)

microbench: ## the benchmarks of the packages, with allocations
	go test -run '^$$' -bench . -benchmem ./...

fuzz-api: ## requests at random to every operation, for long: STOA_FUZZ_ROUNDS each
	STOA_FUZZ_ROUNDS=$${STOA_FUZZ_ROUNDS:-2000} STOA_FUZZ_SEED=$${STOA_FUZZ_SEED:-$$(date +%s)} go test -count=1 -v -timeout 6h -run TestFuzzed ./internal/faces/api

fuzz: ## each fuzz target for a minute
	@for p in $$(go list ./...); do for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz'); do go test -run '^$$' -fuzz "^$$f$$" -fuzztime 60s $$p || exit 1; done; done
