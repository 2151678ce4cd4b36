# No compile stage: Node runs the TypeScript.
FROM node:26-trixie-slim

WORKDIR /opt/rollcall
COPY package.json package-lock.json ./
# Without the development dependencies: the image brings the runtime itself.
RUN npm ci --omit=dev --ignore-scripts && npm cache clean --force
COPY bin bin
COPY connectors connectors
COPY src src
COPY LICENSE README.md CHANGELOG.md ./

# The configuration is mounted at /etc/rollcall; a container listens on all of its own addresses, so the configuration
# says `service.listen: 0.0.0.0:8442` with `tls`, or `allowPlainHttp: true` behind a proxy that ends TLS,
# and `service.data: /var/lib/rollcall`.
RUN mkdir -p /var/lib/rollcall /etc/rollcall && chown node:node /var/lib/rollcall
VOLUME /var/lib/rollcall
USER node
EXPOSE 8442
# The allocator gives large blocks back to the system, instead of keeping them for later.
ENV NODE_ENV=production MALLOC_MMAP_THRESHOLD_=1048576 ROLLCALL_CONFIG=/etc/rollcall/rollcall.yaml
# The running service says where it listens; its certificate is its own, so a probe from inside need not check it.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
  CMD NODE_NO_WARNINGS=1 NODE_TLS_REJECT_UNAUTHORIZED=0 node -e "\
    const { url } = JSON.parse(require('node:fs').readFileSync('/var/lib/rollcall/service.json', 'utf8')); \
    fetch(url + '/healthz').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"
ENTRYPOINT ["node", "--max-semi-space-size=2", "bin/rollcall.js"]
CMD ["start"]
