# Stands in for Homebrew: installs a formula from a server and runs its test.
#
#   ruby brew.rb FORMULA BASE PREFIX   BASE takes the place of https://github.com/stepwell/stepwell
require "digest"
require "fileutils"
require "net/http"
require "open3"
require "pathname"
require "tmpdir"

HOMEBREW_PREFIX = Pathname(ARGV.fetch(2))
SYSTEM = :linux
CPU = { "x86_64" => :intel, "aarch64" => :arm }.fetch(`uname -m`.strip)

class Pathname
  def install(*files)
    mkpath
    files.flatten.each do |file|
      pairs = file.is_a?(Hash) ? file.to_a : [[file, File.basename(file)]]
      pairs.each { |from, to| FileUtils.cp(from, self / to) }
    end
  end
end

class Formula
  SEEN = {}
  class << self
    %i[desc homepage license version url sha256].each do |name|
      define_method(name) { |value = nil| value ? (raise "#{name} twice" if SEEN[name]; SEEN[name] = value) : SEEN.fetch(name) }
    end
    { on_macos: :macos, on_linux: :linux }.each { |name, system| define_method(name) { |&body| body.call if system == SYSTEM } }
    { on_arm: :arm, on_intel: :intel }.each { |name, cpu| define_method(name) { |&body| body.call if cpu == CPU } }
    def service(&body) = SEEN[:service] = body
    def test(&body) = SEEN[:test] = body
  end

  def version = self.class.version
  def prefix = HOMEBREW_PREFIX
  def bin = prefix / "bin"
  def opt_bin = bin
  def var = prefix / "var"
  def man1 = prefix / "share/man/man1"
  def bash_completion = prefix / "etc/bash_completion.d"
  def zsh_completion = prefix / "share/zsh/site-functions"
  def fish_completion = prefix / "share/fish/vendor_completions.d"

  def run(command) = Pathname(command.first).executable? || raise("the service runs #{command}")
  def environment_variables(variables) = variables
  def working_dir(dir) = dir
  def keep_alive(options) = options

  def assert_match(wanted, text) = text[wanted] || raise("#{wanted} is not in: #{text}")
  def system(*command) = super(*command.map(&:to_s)) || raise("failed: #{command}")
  def shell_output(command)
    text, status = Open3.capture2("/bin/sh", "-c", command)
    status.success? ? text : raise("failed: #{command}: #{text}")
  end
end

load ARGV.fetch(0)
formula = Stepwell.new
url = Formula.url.sub("https://github.com/stepwell/stepwell", ARGV.fetch(1))
raise "#{url} is not below #{ARGV[1]}" unless url.start_with?(ARGV[1])
archive = Net::HTTP.get(URI(url))
raise "the sum of #{url} is another one" unless Digest::SHA256.hexdigest(archive) == Formula.sha256
Dir.mktmpdir do |dir|
  Dir.chdir(dir) do
    File.binwrite("archive.tar.gz", archive)
    formula.system("tar", "-xzf", "archive.tar.gz")
    formula.install
  end
end
formula.instance_eval(&Formula::SEEN.fetch(:service))
Dir.mktmpdir { |dir| Dir.chdir(dir) { formula.instance_eval(&Formula::SEEN.fetch(:test)) } }
