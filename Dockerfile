# The image of Stoa: one static program, no shell, not root.
#
#   docker build -t stoa --build-arg VERSION=v1.2.3 .
#   docker run --name stoa -p 127.0.0.1:8080:8080 -v stoa:/data stoa
#   docker cp stoa:/data/owner.key - | tar -xO
#
# The first start writes the owner's key to that file, or prints it with -t; STOA_BOOTSTRAP_KEY chooses one.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH make build BINARY=/out/stoa VERSION=$VERSION
RUN mkdir /out/data /out/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/stoa /stoa
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build --chown=65532:65532 /out/tmp /tmp
COPY LICENSE NOTICE /
ENV STOA_LISTEN=0.0.0.0:8080 STOA_DATA=/data STOA_LOG_FORMAT=json
USER 65532:65532
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s CMD ["/stoa", "health", "http://127.0.0.1:8080"]
ENTRYPOINT ["/stoa"]
CMD ["serve"]
