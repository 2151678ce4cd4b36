import { afterAll, beforeAll } from "vitest";
import { login, startService } from "../../support/rollcall/service.ts";
import type { ServiceOptions, TestService } from "../../support/rollcall/service.ts";

/** A service that stands while the tests of a file run. */
export interface ServiceOfFile extends Pick<TestService, "url" | "data" | "administrator" | "running"> {
  /** The administrator's. */
  readonly session: string;
}

/** Starts it before the tests, and ends it after them. */
export function serviceOfFile(options?: ServiceOptions): ServiceOfFile {
  let service: TestService;
  let session: string;
  beforeAll(async () => {
    service = await startService(options);
    session = await login(service.url);
  });
  afterAll(() => service.stop());
  return {
    get url() {
      return service.url;
    },
    get data() {
      return service.data;
    },
    get administrator() {
      return service.administrator;
    },
    get running() {
      return service.running;
    },
    get session() {
      return session;
    },
  };
}
