// A small backend on ioredis: ioredis_client.js PORT NAME. Its 200 calls are pipelined by the library itself.
const Redis = require("ioredis");

async function main() {
  const [port, name] = process.argv.slice(2);
  const client = new Redis({ port: Number(port), enableAutoPipelining: true });
  await client.call("SALE.CREATE", name, 50);
  const calls = Array.from({ length: 200 }, (_, i) => client.call("SALE.GRAB", name, `buyer-${i}`));
  const words = (await Promise.all(calls)).map((reply) => reply[0]);
  const left = await client.call("SALE.LEFT", name);
  const problem = await client.call("SALE.LEFT", `none-${name}`).catch((error) => error.message.split(" ")[0]);
  const won = words.filter((word) => word === "WON").length;
  console.log(JSON.stringify({ won, refused: words.filter((word) => word === "SOLD_OUT").length, left, problem }));
  await client.quit();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
