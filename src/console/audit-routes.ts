import type { FastifyInstance } from "fastify";
import { Refusal } from "#control/answers.ts";
import { auditQuery, read } from "#control/requests.ts";
import { listAudit } from "#state/audit/list.ts";
import { auditFormats, renderAudit } from "#state/audit/list.ts";
import type { AuditFormat } from "#state/audit/list.ts";
import type { AppOptions, Send } from "./context.ts";
import { audit } from "#console/pages/audit.ts";
import { filled } from "./selection.ts";

/** How many entries are on a page. */
const pageSize = 100;

const contentTypes: Readonly<Record<AuditFormat, string>> = {
  jsonl: "application/x-ndjson",
  csv: "text/csv; charset=utf-8",
};

/** Adds the pages of the audit log. */
export function addAuditPages(scope: FastifyInstance, { control }: AppOptions, send: Send): void {
  scope.get("/audit", async (request, reply) => {
    const fields = filled(request.query);
    const { before, from, ...filter } = read(auditQuery, fields, "query");
    const daemon = control.daemon();
    const found = await listAudit(daemon.audit, { filter, before, from, limit: pageSize });
    const runs = new Set(daemon.coordinator.runs().map(({ id }) => id));
    const page = audit({ ...found, fields, isRun: (id) => runs.has(id) });
    return send(request, reply, { title: "Audit", section: "audit" }, page);
  });

  scope.get("/audit/download", async (request, reply) => {
    const { format: wanted, ...fields } = filled(request.query);
    const format = auditFormats.find((each) => each === wanted);
    if (format === undefined) throw new Refusal(404, `there is no such download: ${auditFormats.join(", ")}`);
    const { before: _, from, ...filter } = read(auditQuery, fields, "query");
    return reply
      .type(contentTypes[format])
      .header("content-disposition", `attachment; filename="audit.${format}"`)
      .send(renderAudit(format, control.daemon().audit, { filter, from }));
  });
}
