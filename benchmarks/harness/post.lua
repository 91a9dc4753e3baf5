-- Send the prepared requests of one file, each once, and print what came of them as one line of JSON.
--
-- Arguments: file, bytes of each request. The file is read as it is needed: LuaJIT's own memory would not hold it.
-- One thread (wrk -t1): each thread has a state of its own and would send the same requests.

local requests, bytes_each

function init(arguments)
  requests = assert(io.open(arguments[1], "rb"))
  requests:setvbuf("full", 1048576)
  bytes_each = tonumber(arguments[2])
  wrapped = 0
end

function setup(thread)
  sender = thread
end

function request()
  local bytes = requests:read(bytes_each)
  if bytes == nil then
    requests:seek("set", 0)
    wrapped = wrapped + 1
    bytes = requests:read(bytes_each)
  end
  return bytes
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"answers": %d, "seconds": %.6f, "p50_ms": %.3f, "p90_ms": %.3f, "p99_ms": %.3f, "p999_ms": %.3f, "max_ms": %.3f, '
      .. '"refused": %d, "broken": %d, "wrapped": %d}\n',
    summary.requests, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(90) / 1e3, latency:percentile(99) / 1e3,
    latency:percentile(99.9) / 1e3, latency.max / 1e3,
    errors.status, errors.connect + errors.read + errors.write + errors.timeout, sender:get("wrapped")))
end
