Gem::Specification.new do |spec|
  spec.name = "rung-retry"
  spec.version = "0.1.0"
  spec.summary = "Reports failures and successes of RabbitMQ consumers to Rung, which retries them (bunny)"
  spec.authors = ["The Rung authors"]
  spec.license = "Apache-2.0"
  spec.required_ruby_version = ">= 3.0"
  spec.files = ["lib/rung/retry.rb", "lib/rung-retry.rb", "sig/rung.rbs", "README.md"]
  spec.add_dependency "bunny", ">= 2.19"
end
