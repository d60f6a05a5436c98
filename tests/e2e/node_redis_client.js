// A small backend on node-redis, which speaks RESP3 as the server answers HELLO 3: node_redis_client.js PORT NAME.
// Prints what came, as the library took it: of a map of RESP3 it makes an object, of an array it does not.
const { createClient } = require("redis");

async function main() {
  const [port, name] = process.argv.slice(2);
  const client = createClient({ socket: { host: "127.0.0.1", port: Number(port) }, RESP: 3, name: "till" });
  client.on("error", (error) => {
    console.error(error);
    process.exit(1);
  });
  await client.connect();
  const send = (...words) => client.sendCommand(words.map(String));

  const said = {};
  said.hello = await send("HELLO");
  said.name = await client.clientGetName();
  said.sale = await send("SALE.CREATE", name, 50, "PAYWITHIN", 60);
  const grabs = await Promise.all(Array.from({ length: 60 }, (_, i) => send("SALE.GRAB", name, `buyer-${i}`)));
  said.words = grabs.map((reply) => reply[0]);
  said.won = grabs[0];
  said.lost = grabs[59];
  said.left = await send("SALE.LEFT", name);
  said.info = await send("SALE.INFO", name);
  said.order = await send("SALE.ORDER", grabs[0][1]);
  said.paid = await send("SALE.PAY", grabs[0][1], "ref-1", 0);
  said.seckill = await send("SECKILL", "late", name, 1);
  said.problem = await send("SALE.LEFT", `none-${name}`).catch((error) => error.message.split(" ")[0]);
  await send("CLIENT", "SETNAME", "");
  said.nameless = await client.clientGetName();
  console.log(JSON.stringify(said));
  await client.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
