/** How the values of an attribute are written. */
export type Form =
  | "text"
  | "guid"
  | "sid"
  /** Rules see base64. */
  | "bytes"
  /** Nobody sees it. */
  | "secret";

/** Names in lower case. Where one is missing, people name it in the options. */
const names: Readonly<Record<Exclude<Form, "text">, string>> = {
  guid: "objectguid ms-ds-consistencyguid msexchmailboxguid guid",
  sid: "objectsid sidhistory tokengroups tokengroupsglobalanduniversal tokengroupsnogcacceptable securityidentifier",
  bytes: `
    jpegphoto thumbnailphoto thumbnaillogo photo audio usercertificate usersmimecertificate cacertificate
    crosscertificatepair certificaterevocationlist authorityrevocationlist logonhours ntsecuritydescriptor dnsrecord
    replpropertymetadata msds-allowedtoactonbehalfofotheridentity msexchmailboxsecuritydescriptor
    msexchsafesendershash msexchblockedsendershash msexchsaferecipientshash`,
  secret: `
    userpassword unicodepwd ntpwdhistory lmpwdhistory dbcspwd supplementalcredentials authpassword userpkcs12
    sambantpassword sambalmpassword sambapasswordhistory krbprincipalkey krbmkey ipanthash ipatokenotpkey
    ms-mcs-admpwd mslaps-password mslaps-encryptedpassword mslaps-encryptedpasswordhistory msds-managedpassword
    pwdhistory passwordhistory unixuserpassword msfve-recoverypassword msfve-keypackage nsds5replicacredentials
    olcrootpw`,
};

const forms = new Map(
  Object.entries(names).flatMap(([form, list]) =>
    list
      .trim()
      .split(/\s+/)
      .map((name) => [name, form as Form] as const),
  ),
);

/** @param name without options, in lower case */
export function formOf(name: string): Form {
  return forms.get(name) ?? "text";
}

/** The usual form of a GUID that Microsoft writes as bytes: its first three parts are written backwards. */
export function guidOf(bytes: Buffer): string | undefined {
  if (bytes.length !== 16) return undefined;
  const parts = [
    bytes.readUInt32LE(0).toString(16).padStart(8, "0"),
    bytes.readUInt16LE(4).toString(16).padStart(4, "0"),
    bytes.readUInt16LE(6).toString(16).padStart(4, "0"),
    bytes.toString("hex", 8, 10),
    bytes.toString("hex", 10),
  ];
  return parts.join("-");
}

/** `S-1-5-21-…`: the usual form of a security identifier. */
export function sidOf(bytes: Buffer): string | undefined {
  const count = bytes[1] ?? 0;
  if (bytes.length < 8 || bytes.length !== 8 + 4 * count) return undefined;
  const parts = Array.from({ length: count }, (_, index) => bytes.readUInt32LE(8 + 4 * index));
  return ["S", bytes[0], bytes.readUIntBE(2, 6), ...parts].join("-");
}

/** The bytes of a security identifier, each as `\xx` of a filter. */
export function sidInFilter(sid: string): string {
  const [, revision = 0, authority = 0, ...parts] = sid.split("-").map(Number);
  const bytes = Buffer.alloc(8 + 4 * parts.length);
  bytes[0] = revision;
  bytes[1] = parts.length;
  bytes.writeUIntBE(authority, 2, 6);
  for (const [index, part] of parts.entries()) bytes.writeUInt32LE(part, 8 + 4 * index);
  return bytes.toString("hex").replaceAll(/../g, "\\$&");
}
