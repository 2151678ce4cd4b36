# The image of the npm package, which `npm pack` (or a release) puts here: rollcall-VERSION.tgz.
# For other registries, or none: --build-arg NODE=… (has node and npm in /usr/local) and --build-arg BASE=… (Debian 12 or newer).
ARG NODE=node:26-trixie-slim
ARG BASE=debian:trixie-slim

FROM ${NODE} AS build
WORKDIR /opt/rollcall
COPY rollcall-*.tgz package-lock.json ./
# Without the development dependencies, and without what is never read at run time.
RUN tar --extract --gzip --strip-components=1 --no-same-owner \
      --file "rollcall-$(node --print 'require("./package-lock.json").version').tgz" \
 && npm ci --omit=dev --ignore-scripts --no-audit --no-fund \
 && find node_modules -type f \( -name '*.map' -o -name '*.ts' -o -name '*.md' \) -delete \
 && rm rollcall-*.tgz package-lock.json

FROM ${BASE}
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libatomic1 libstdc++6 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && useradd --uid 1000 --home-dir /var/lib/rollcall --no-create-home --shell /usr/sbin/nologin rollcall \
 && install --directory /etc/rollcall \
 && install --directory --owner rollcall --group rollcall /var/lib/rollcall /var/cache/rollcall \
 && ln -s /opt/rollcall/bin/rollcall.js /usr/local/bin/rollcall
COPY --from=build /usr/local/bin/node /usr/local/bin/node
COPY --from=build /opt/rollcall /opt/rollcall

# The configuration is mounted at /etc/rollcall; a container listens on all of its own addresses, so the configuration
# says `service.listen: 0.0.0.0:8442` with `tls`, or `allowPlainHttp: true` behind a proxy that ends TLS,
# and `service.data: /var/lib/rollcall`.
WORKDIR /var/lib/rollcall
VOLUME /var/lib/rollcall
# As a number, so that Kubernetes sees that it is not root.
USER 1000:1000
EXPOSE 8442
# With an arena for each thread, the C library keeps more memory free than it gives back.
ENV NODE_ENV=production MALLOC_ARENA_MAX=2 NODE_COMPILE_CACHE=/var/cache/rollcall ROLLCALL_CONFIG=/etc/rollcall/rollcall.yaml
# Asks the service where it says that it listens, over TLS or not.
HEALTHCHECK --interval=30s --timeout=10s --start-period=20s CMD ["rollcall", "health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["rollcall"]
CMD ["start"]
