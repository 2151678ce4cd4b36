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
RUN mkdir -p /var/lib/rollcall /var/cache/rollcall /etc/rollcall && chown node:node /var/lib/rollcall /var/cache/rollcall
VOLUME /var/lib/rollcall
USER node
EXPOSE 8442
ENV NODE_ENV=production NODE_COMPILE_CACHE=/var/cache/rollcall ROLLCALL_CONFIG=/etc/rollcall/rollcall.yaml
# Asks the service where it says that it listens, over TLS or not.
HEALTHCHECK --interval=30s --timeout=10s --start-period=20s CMD ["node", "bin/rollcall.js", "health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "bin/rollcall.js"]
CMD ["start"]
