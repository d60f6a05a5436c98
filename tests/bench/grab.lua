-- The crowd: every request is a grab by another buyer.
--
-- Arguments after "--": file of tokens, bytes of one line of it (all are equally long), sale, tokens to use in all, threads.
-- Whole requests are built before the clock starts; request() only takes the next one, because an interpreter that builds
-- strings would be the bottleneck of the measurement. Each thread has a slice of the tokens of its own: no buyer comes twice
-- before a slice is used up. The answers' statuses are counted by wrk (beyond 399) and by the server, not by a response()
-- here, which would halve what wrk can drive.

local threads = 0

function setup(thread)
   thread:set("slice_nth", threads)
   threads = threads + 1
end

function init(args)
   local path, line_bytes, sale, tokens, slices = args[1], tonumber(args[2]), args[3], tonumber(args[4]), tonumber(args[5])
   slice_size = math.floor(tokens / slices)
   local before = "POST /v1/sales/" .. sale .. "/grabs HTTP/1.1\r\nHost: " .. wrk.host .. "\r\nAuthorization: Bearer "
   local after = "\r\nContent-Length: 0\r\n\r\n"
   local file = assert(io.open(path, "rb"))
   assert(file:seek("set", slice_nth * slice_size * line_bytes))
   requests = {}
   for i = 1, slice_size do
      local token = file:read(line_bytes)
      requests[i] = before .. token:sub(1, -2) .. after
   end
   file:close()
   collectgarbage()
   collectgarbage("stop")
   taken = 0
end

function request()
   if taken == slice_size then taken = 0 end
   taken = taken + 1
   return requests[taken]
end

-- One line that the bench reads; times in milliseconds.
function done(summary, latency, requests_made)
   local errors = summary.errors
   io.write(string.format("bench requests=%d seconds=%.6f mean=%.4f p50=%.4f p95=%.4f p99=%.4f status=%d socket=%d\n",
      summary.requests, summary.duration / 1e6, latency.mean / 1e3, latency:percentile(50) / 1e3,
      latency:percentile(95) / 1e3, latency:percentile(99) / 1e3, errors.status,
      errors.connect + errors.read + errors.write + errors.timeout))
end
