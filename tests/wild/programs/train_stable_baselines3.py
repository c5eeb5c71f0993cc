"""PPO of stable-baselines3."""

import gymnasium as gym
import stable_baselines3 as sb3
import torch

torch.manual_seed(0)
model = sb3.PPO(
    "MlpPolicy",
    gym.make("CartPole-v1"),
    n_steps=64,
    batch_size=32,
    n_epochs=2,
    seed=0,
    device="cpu",
)
model.learn(192)
print(model.logger.name_to_value.get("train/loss", 0.0))
print(float(sum(p.double().sum() for p in model.policy.parameters())))
print(model.predict(__import__("numpy").zeros(4, "float32"), deterministic=True)[0])
