/** What a person can be told of. `test`: somebody tries the channel. */
export type NoticeEvent = "pending" | "held" | "failed" | "recovered" | "applied" | "overdue" | "skipped" | "test";

/** A way to tell people. Durations in milliseconds. */
export type Channel = EmailChannel | WebhookChannel | ChatChannel;

interface ChannelSettings {
  readonly events: readonly NoticeEvent[];
  /** Names of syncs; absent: all. */
  readonly syncs?: readonly string[];
  /** Whether names of principals, and what holds some, may be in it. */
  readonly names: boolean;
  /** Notices are collected for so long, but for these events; absent: each is sent at once. */
  readonly digest?: { readonly every: number; readonly except: readonly string[] };
  /** To another machine without encryption. */
  readonly allowPlain: boolean;
}

export interface EmailChannel extends ChannelSettings {
  readonly by: "email";
  /** `tls`: from the start; otherwise STARTTLS. */
  readonly server: { readonly host: string; readonly port: number; readonly tls: boolean };
  readonly username?: string;
  readonly password?: string;
  /** A file in PEM form that the server's certificate is checked against; of the others too. */
  readonly ca?: string;
  readonly from: string;
  readonly to: readonly string[];
}

export interface WebhookChannel extends ChannelSettings {
  readonly by: "webhook";
  readonly url: string;
  /** The key of the signature. */
  readonly secret: string;
  readonly ca?: string;
}

export interface ChatChannel extends ChannelSettings {
  readonly by: "chat";
  /** Whoever knows it may write there. */
  readonly url: string;
  readonly ca?: string;
}
