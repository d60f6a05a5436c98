-- The crowd: every request is a grab by another buyer.
--
-- Arguments after "--": file of tokens, bytes of one line of it (all are equally long), sale, tokens to use in all, threads.
-- Then, where it is not the native grab: method, path and body. A file of tokens called "-" is none: all requests are the same.
-- Whole requests are built before the clock starts; request() only takes the next one, because an interpreter that builds
-- strings would be the bottleneck of the measurement. Each thread has a slice of the tokens of its own: no buyer comes twice
-- before a slice is used up. The answers' statuses are counted by wrk (beyond 399) and by the server, not by a response()
-- here, which would halve what wrk can drive.

local threads = 0

-- LuaJIT hashes a string by a few of its bytes, the last four among them: thousands that end alike would all meet in one place.
local blanks = { " ", "\t", "\n", "\r" }
local function ending(i)
   local text = ""
   for _ = 1, 4 do
      text = text .. blanks[i % 4 + 1]
      i = math.floor(i / 4)
   end
   return text
end

function setup(thread)
   thread:set("slice_nth", threads)
   threads = threads + 1
end

function init(args)
   local path, line_bytes, sale, tokens, slices = args[1], tonumber(args[2]), args[3], tonumber(args[4]), tonumber(args[5])
   slice_size = math.floor(tokens / slices)
   local method, target, body = args[6] or "POST", args[7] or "/v1/sales/" .. sale .. "/grabs", args[8] or ""
   local head = method .. " " .. target .. " HTTP/1.1\r\nHost: " .. wrk.host .. "\r\n"
   if body ~= "" then head = head .. "Content-Type: application/json\r\n" end
   local ends = body ~= "" and path ~= "-"
   if method ~= "GET" then head = head .. "Content-Length: " .. #body + (ends and 4 or 0) .. "\r\n" end
   if path == "-" then
      requests, slice_size, taken = { head .. "\r\n" .. body }, 1, 0
      return
   end
   local before, after = head .. "Authorization: Bearer ", "\r\n\r\n" .. body
   local file = assert(io.open(path, "rb"))
   assert(file:seek("set", slice_nth * slice_size * line_bytes))
   requests = {}
   for i = 1, slice_size do
      local token = file:read(line_bytes)
      requests[i] = before .. token:sub(1, -2) .. after .. (ends and ending(i) or "")
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
